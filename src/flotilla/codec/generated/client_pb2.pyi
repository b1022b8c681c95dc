from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Request(_message.Message):
    __slots__ = ("correlation_id", "hello", "produce", "fetch", "list_offsets", "commit_offset", "read_offset", "get_metadata", "create_topic", "alter_topic", "delete_topic", "init_cluster", "join_cluster", "remove_node", "transfer_leadership")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    PRODUCE_FIELD_NUMBER: _ClassVar[int]
    FETCH_FIELD_NUMBER: _ClassVar[int]
    LIST_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    READ_OFFSET_FIELD_NUMBER: _ClassVar[int]
    GET_METADATA_FIELD_NUMBER: _ClassVar[int]
    CREATE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    ALTER_TOPIC_FIELD_NUMBER: _ClassVar[int]
    DELETE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    INIT_CLUSTER_FIELD_NUMBER: _ClassVar[int]
    JOIN_CLUSTER_FIELD_NUMBER: _ClassVar[int]
    REMOVE_NODE_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_LEADERSHIP_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    hello: Hello
    produce: Produce
    fetch: Fetch
    list_offsets: ListOffsets
    commit_offset: CommitOffset
    read_offset: ReadOffset
    get_metadata: GetMetadata
    create_topic: CreateTopic
    alter_topic: AlterTopic
    delete_topic: DeleteTopic
    init_cluster: InitCluster
    join_cluster: JoinCluster
    remove_node: RemoveNode
    transfer_leadership: TransferLeadership
    def __init__(self, correlation_id: _Optional[int] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., produce: _Optional[_Union[Produce, _Mapping]] = ..., fetch: _Optional[_Union[Fetch, _Mapping]] = ..., list_offsets: _Optional[_Union[ListOffsets, _Mapping]] = ..., commit_offset: _Optional[_Union[CommitOffset, _Mapping]] = ..., read_offset: _Optional[_Union[ReadOffset, _Mapping]] = ..., get_metadata: _Optional[_Union[GetMetadata, _Mapping]] = ..., create_topic: _Optional[_Union[CreateTopic, _Mapping]] = ..., alter_topic: _Optional[_Union[AlterTopic, _Mapping]] = ..., delete_topic: _Optional[_Union[DeleteTopic, _Mapping]] = ..., init_cluster: _Optional[_Union[InitCluster, _Mapping]] = ..., join_cluster: _Optional[_Union[JoinCluster, _Mapping]] = ..., remove_node: _Optional[_Union[RemoveNode, _Mapping]] = ..., transfer_leadership: _Optional[_Union[TransferLeadership, _Mapping]] = ...) -> None: ...

class Response(_message.Message):
    __slots__ = ("correlation_id", "error", "welcome", "produced", "fetched", "offset_found", "offset_committed", "metadata", "topic_reply", "cluster_reply", "done")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    PRODUCED_FIELD_NUMBER: _ClassVar[int]
    FETCHED_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FOUND_FIELD_NUMBER: _ClassVar[int]
    OFFSET_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    TOPIC_REPLY_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_REPLY_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    error: Error
    welcome: Welcome
    produced: Produced
    fetched: Fetched
    offset_found: OffsetFound
    offset_committed: OffsetCommitted
    metadata: Metadata
    topic_reply: TopicReply
    cluster_reply: ClusterReply
    done: Done
    def __init__(self, correlation_id: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., produced: _Optional[_Union[Produced, _Mapping]] = ..., fetched: _Optional[_Union[Fetched, _Mapping]] = ..., offset_found: _Optional[_Union[OffsetFound, _Mapping]] = ..., offset_committed: _Optional[_Union[OffsetCommitted, _Mapping]] = ..., metadata: _Optional[_Union[Metadata, _Mapping]] = ..., topic_reply: _Optional[_Union[TopicReply, _Mapping]] = ..., cluster_reply: _Optional[_Union[ClusterReply, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message", "leader", "retry_after_ms")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    leader: str
    retry_after_ms: int
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., leader: _Optional[str] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("version_min", "version_max", "client")
    VERSION_MIN_FIELD_NUMBER: _ClassVar[int]
    VERSION_MAX_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    version_min: int
    version_max: int
    client: str
    def __init__(self, version_min: _Optional[int] = ..., version_max: _Optional[int] = ..., client: _Optional[str] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("version", "node", "cluster_id", "frame_bytes_max", "requests_max")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    FRAME_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_MAX_FIELD_NUMBER: _ClassVar[int]
    version: int
    node: int
    cluster_id: str
    frame_bytes_max: int
    requests_max: int
    def __init__(self, version: _Optional[int] = ..., node: _Optional[int] = ..., cluster_id: _Optional[str] = ..., frame_bytes_max: _Optional[int] = ..., requests_max: _Optional[int] = ...) -> None: ...

class Produce(_message.Message):
    __slots__ = ("topic", "partition")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class Produced(_message.Message):
    __slots__ = ("base_offset", "duplicate")
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    base_offset: int
    duplicate: bool
    def __init__(self, base_offset: _Optional[int] = ..., duplicate: _Optional[bool] = ...) -> None: ...

class Fetch(_message.Message):
    __slots__ = ("topic", "partition", "offset", "max_bytes", "wait_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    max_bytes: int
    wait_ms: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., max_bytes: _Optional[int] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class Fetched(_message.Message):
    __slots__ = ("log_start", "next_offset", "batch_bytes")
    LOG_START_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    log_start: int
    next_offset: int
    batch_bytes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, log_start: _Optional[int] = ..., next_offset: _Optional[int] = ..., batch_bytes: _Optional[_Iterable[int]] = ...) -> None: ...

class ListOffsets(_message.Message):
    __slots__ = ("topic", "partition", "timestamp_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    timestamp_ms: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., timestamp_ms: _Optional[int] = ...) -> None: ...

class OffsetFound(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class CommitOffset(_message.Message):
    __slots__ = ("group", "topic", "partition", "offset", "reset")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    partition: int
    offset: int
    reset: bool
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., reset: _Optional[bool] = ...) -> None: ...

class OffsetCommitted(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class ReadOffset(_message.Message):
    __slots__ = ("group", "topic", "partition")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    partition: int
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class GetMetadata(_message.Message):
    __slots__ = ("topics", "create")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    create: bool
    def __init__(self, topics: _Optional[_Iterable[str]] = ..., create: _Optional[bool] = ...) -> None: ...

class Broker(_message.Message):
    __slots__ = ("node", "client", "http", "is_alive")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    HTTP_FIELD_NUMBER: _ClassVar[int]
    IS_ALIVE_FIELD_NUMBER: _ClassVar[int]
    node: int
    client: str
    http: str
    is_alive: bool
    def __init__(self, node: _Optional[int] = ..., client: _Optional[str] = ..., http: _Optional[str] = ..., is_alive: _Optional[bool] = ...) -> None: ...

class Partition(_message.Message):
    __slots__ = ("number", "leader", "replicas")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    number: int
    leader: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, number: _Optional[int] = ..., leader: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ...) -> None: ...

class Topic(_message.Message):
    __slots__ = ("name", "topic_id", "partitions", "settings")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: int
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    settings: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ..., settings: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Metadata(_message.Message):
    __slots__ = ("cluster_id", "controller", "brokers", "topics")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    controller: int
    brokers: _containers.RepeatedCompositeFieldContainer[Broker]
    topics: _containers.RepeatedCompositeFieldContainer[Topic]
    def __init__(self, cluster_id: _Optional[str] = ..., controller: _Optional[int] = ..., brokers: _Optional[_Iterable[_Union[Broker, _Mapping]]] = ..., topics: _Optional[_Iterable[_Union[Topic, _Mapping]]] = ...) -> None: ...

class CreateTopic(_message.Message):
    __slots__ = ("topic", "partitions", "replication_factor", "settings")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: int
    replication_factor: int
    settings: _containers.ScalarMap[str, str]
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ..., settings: _Optional[_Mapping[str, str]] = ...) -> None: ...

class AlterTopic(_message.Message):
    __slots__ = ("topic", "partitions", "settings")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: int
    settings: _containers.ScalarMap[str, str]
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[int] = ..., settings: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DeleteTopic(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class TopicReply(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: Topic
    def __init__(self, topic: _Optional[_Union[Topic, _Mapping]] = ...) -> None: ...

class InitCluster(_message.Message):
    __slots__ = ("nodes",)
    class NodesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.ScalarMap[int, str]
    def __init__(self, nodes: _Optional[_Mapping[int, str]] = ...) -> None: ...

class JoinCluster(_message.Message):
    __slots__ = ("node", "peer", "client", "http")
    NODE_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    HTTP_FIELD_NUMBER: _ClassVar[int]
    node: int
    peer: str
    client: str
    http: str
    def __init__(self, node: _Optional[int] = ..., peer: _Optional[str] = ..., client: _Optional[str] = ..., http: _Optional[str] = ...) -> None: ...

class RemoveNode(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: int
    def __init__(self, node: _Optional[int] = ...) -> None: ...

class ClusterReply(_message.Message):
    __slots__ = ("cluster_id", "peers")
    class PeersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    peers: _containers.ScalarMap[int, str]
    def __init__(self, cluster_id: _Optional[str] = ..., peers: _Optional[_Mapping[int, str]] = ...) -> None: ...

class TransferLeadership(_message.Message):
    __slots__ = ("topic", "partition", "to")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    to: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., to: _Optional[int] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
