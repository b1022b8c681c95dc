from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Header(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class Record(_message.Message):
    __slots__ = ("payload", "key", "headers", "priority", "content_type", "timestamp_ms", "delay_ms", "deliver_at_ms", "ttl_ms", "idempotency_key", "max_deliveries")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_MS_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    MAX_DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    key: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    priority: int
    content_type: int
    timestamp_ms: int
    delay_ms: int
    deliver_at_ms: int
    ttl_ms: int
    idempotency_key: bytes
    max_deliveries: int
    def __init__(self, payload: _Optional[bytes] = ..., key: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., priority: _Optional[int] = ..., content_type: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., delay_ms: _Optional[int] = ..., deliver_at_ms: _Optional[int] = ..., ttl_ms: _Optional[int] = ..., idempotency_key: _Optional[bytes] = ..., max_deliveries: _Optional[int] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("payload", "key", "headers", "priority", "content_type", "timestamp_ms", "deliver_at_ms", "ttl_ms", "idempotency_key", "max_deliveries", "partition", "offset", "attempt", "lease")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_MS_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    MAX_DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    key: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    priority: int
    content_type: int
    timestamp_ms: int
    deliver_at_ms: int
    ttl_ms: int
    idempotency_key: bytes
    max_deliveries: int
    partition: int
    offset: int
    attempt: int
    lease: str
    def __init__(self, payload: _Optional[bytes] = ..., key: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., priority: _Optional[int] = ..., content_type: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., deliver_at_ms: _Optional[int] = ..., ttl_ms: _Optional[int] = ..., idempotency_key: _Optional[bytes] = ..., max_deliveries: _Optional[int] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., attempt: _Optional[int] = ..., lease: _Optional[str] = ...) -> None: ...

class Delivery(_message.Message):
    __slots__ = ("partition", "lease_id", "first", "count", "attempt", "batch", "topic_id")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    partition: int
    lease_id: int
    first: int
    count: int
    attempt: int
    batch: bytes
    topic_id: int
    def __init__(self, partition: _Optional[int] = ..., lease_id: _Optional[int] = ..., first: _Optional[int] = ..., count: _Optional[int] = ..., attempt: _Optional[int] = ..., batch: _Optional[bytes] = ..., topic_id: _Optional[int] = ...) -> None: ...

class Held(_message.Message):
    __slots__ = ("partition", "lease_id", "first", "count", "topic_id")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    partition: int
    lease_id: int
    first: int
    count: int
    topic_id: int
    def __init__(self, partition: _Optional[int] = ..., lease_id: _Optional[int] = ..., first: _Optional[int] = ..., count: _Optional[int] = ..., topic_id: _Optional[int] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "name", "message", "retryable", "retry_after_ms")
    CODE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    code: int
    name: str
    message: str
    retryable: bool
    retry_after_ms: int
    def __init__(self, code: _Optional[int] = ..., name: _Optional[str] = ..., message: _Optional[str] = ..., retryable: _Optional[bool] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class ProduceRequest(_message.Message):
    __slots__ = ("topic", "partition", "records", "batch", "topic_id", "partition_count")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    records: _containers.RepeatedCompositeFieldContainer[Record]
    batch: bytes
    topic_id: int
    partition_count: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ..., batch: _Optional[bytes] = ..., topic_id: _Optional[int] = ..., partition_count: _Optional[int] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("partition", "offset", "duplicate", "topic_id")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    duplicate: bool
    topic_id: int
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ..., duplicate: _Optional[bool] = ..., topic_id: _Optional[int] = ...) -> None: ...

class ProduceReply(_message.Message):
    __slots__ = ("receipts", "error", "known_positions", "known_offsets")
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    KNOWN_POSITIONS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    receipts: _containers.RepeatedCompositeFieldContainer[Receipt]
    error: Error
    known_positions: _containers.RepeatedScalarFieldContainer[int]
    known_offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, receipts: _Optional[_Iterable[_Union[Receipt, _Mapping]]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., known_positions: _Optional[_Iterable[int]] = ..., known_offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class ProduceStreamReply(_message.Message):
    __slots__ = ("replies",)
    REPLIES_FIELD_NUMBER: _ClassVar[int]
    replies: _containers.RepeatedCompositeFieldContainer[ProduceReply]
    def __init__(self, replies: _Optional[_Iterable[_Union[ProduceReply, _Mapping]]] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("topic", "partition", "offset", "max_bytes", "wait_ms", "batches", "any_replica", "linearizable", "topic_id", "types", "headers")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    ANY_REPLICA_FIELD_NUMBER: _ClassVar[int]
    LINEARIZABLE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    max_bytes: int
    wait_ms: int
    batches: bool
    any_replica: bool
    linearizable: bool
    topic_id: int
    types: _containers.RepeatedScalarFieldContainer[str]
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., max_bytes: _Optional[int] = ..., wait_ms: _Optional[int] = ..., batches: _Optional[bool] = ..., any_replica: _Optional[bool] = ..., linearizable: _Optional[bool] = ..., topic_id: _Optional[int] = ..., types: _Optional[_Iterable[str]] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ...) -> None: ...

class FetchReply(_message.Message):
    __slots__ = ("messages", "batches", "log_start", "next_offset", "resume_offset")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    LOG_START_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RESUME_OFFSET_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    batches: _containers.RepeatedScalarFieldContainer[bytes]
    log_start: int
    next_offset: int
    resume_offset: int
    def __init__(self, messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., batches: _Optional[_Iterable[bytes]] = ..., log_start: _Optional[int] = ..., next_offset: _Optional[int] = ..., resume_offset: _Optional[int] = ...) -> None: ...

class ListOffsetsRequest(_message.Message):
    __slots__ = ("topic", "partition", "timestamp_ms", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    timestamp_ms: int
    topic_id: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., topic_id: _Optional[int] = ...) -> None: ...

class ListOffsetsReply(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class CommitOffsetRequest(_message.Message):
    __slots__ = ("group", "topic", "partition", "offset", "reset", "epoch", "topic_id", "as_of")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    partition: int
    offset: int
    reset: bool
    epoch: int
    topic_id: int
    as_of: int
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., reset: _Optional[bool] = ..., epoch: _Optional[int] = ..., topic_id: _Optional[int] = ..., as_of: _Optional[int] = ...) -> None: ...

class ReadOffsetRequest(_message.Message):
    __slots__ = ("group", "topic", "partition", "topic_id", "is_optional")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    IS_OPTIONAL_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    partition: int
    topic_id: int
    is_optional: bool
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., topic_id: _Optional[int] = ..., is_optional: _Optional[bool] = ...) -> None: ...

class OffsetReply(_message.Message):
    __slots__ = ("offset", "as_of")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    offset: int
    as_of: int
    def __init__(self, offset: _Optional[int] = ..., as_of: _Optional[int] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("place", "value")
    class Place(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        EARLIEST: _ClassVar[Start.Place]
        LATEST: _ClassVar[Start.Place]
        OFFSET: _ClassVar[Start.Place]
        TIME: _ClassVar[Start.Place]
    EARLIEST: Start.Place
    LATEST: Start.Place
    OFFSET: Start.Place
    TIME: Start.Place
    PLACE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    place: Start.Place
    value: int
    def __init__(self, place: _Optional[_Union[Start.Place, str]] = ..., value: _Optional[int] = ...) -> None: ...

class PollRequest(_message.Message):
    __slots__ = ("topic", "group", "member", "partitions", "max_messages", "max_bytes", "visibility_ms", "wait_ms", "auto_ack", "ordered_by_key", "start", "batches", "types", "headers")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_MS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    AUTO_ACK_FIELD_NUMBER: _ClassVar[int]
    ORDERED_BY_KEY_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    member: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    max_messages: int
    max_bytes: int
    visibility_ms: int
    wait_ms: int
    auto_ack: bool
    ordered_by_key: bool
    start: Start
    batches: bool
    types: _containers.RepeatedScalarFieldContainer[str]
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., member: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., visibility_ms: _Optional[int] = ..., wait_ms: _Optional[int] = ..., auto_ack: _Optional[bool] = ..., ordered_by_key: _Optional[bool] = ..., start: _Optional[_Union[Start, _Mapping]] = ..., batches: _Optional[bool] = ..., types: _Optional[_Iterable[str]] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ...) -> None: ...

class PollReply(_message.Message):
    __slots__ = ("messages", "deliveries", "visibility_ms", "retry_after_ms")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_MS_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    deliveries: _containers.RepeatedCompositeFieldContainer[Delivery]
    visibility_ms: int
    retry_after_ms: int
    def __init__(self, messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., deliveries: _Optional[_Iterable[_Union[Delivery, _Mapping]]] = ..., visibility_ms: _Optional[int] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class AckRequest(_message.Message):
    __slots__ = ("topic", "group", "leases", "held", "results")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    leases: _containers.RepeatedScalarFieldContainer[str]
    held: _containers.RepeatedCompositeFieldContainer[Held]
    results: _containers.RepeatedCompositeFieldContainer[Result]
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., leases: _Optional[_Iterable[str]] = ..., held: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., results: _Optional[_Iterable[_Union[Result, _Mapping]]] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("partition", "offset", "payload")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    payload: bytes
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ..., payload: _Optional[bytes] = ...) -> None: ...

class NackRequest(_message.Message):
    __slots__ = ("topic", "group", "leases", "held", "kind", "reason", "delay_ms")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        FAIL: _ClassVar[NackRequest.Kind]
        RELEASE: _ClassVar[NackRequest.Kind]
        REJECT: _ClassVar[NackRequest.Kind]
    FAIL: NackRequest.Kind
    RELEASE: NackRequest.Kind
    REJECT: NackRequest.Kind
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    leases: _containers.RepeatedScalarFieldContainer[str]
    held: _containers.RepeatedCompositeFieldContainer[Held]
    kind: NackRequest.Kind
    reason: str
    delay_ms: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., leases: _Optional[_Iterable[str]] = ..., held: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., kind: _Optional[_Union[NackRequest.Kind, str]] = ..., reason: _Optional[str] = ..., delay_ms: _Optional[int] = ...) -> None: ...

class ExtendRequest(_message.Message):
    __slots__ = ("topic", "group", "member", "leases", "held", "visibility_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    member: str
    leases: _containers.RepeatedScalarFieldContainer[str]
    held: _containers.RepeatedCompositeFieldContainer[Held]
    visibility_ms: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., member: _Optional[str] = ..., leases: _Optional[_Iterable[str]] = ..., held: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., visibility_ms: _Optional[int] = ...) -> None: ...

class SettleReply(_message.Message):
    __slots__ = ("expired", "expired_held")
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_HELD_FIELD_NUMBER: _ClassVar[int]
    expired: _containers.RepeatedScalarFieldContainer[str]
    expired_held: _containers.RepeatedCompositeFieldContainer[Held]
    def __init__(self, expired: _Optional[_Iterable[str]] = ..., expired_held: _Optional[_Iterable[_Union[Held, _Mapping]]] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("open", "credit", "ack", "nack", "extend")
    class Open(_message.Message):
        __slots__ = ("topic", "group", "member", "credit", "partitions", "visibility_ms", "auto_ack", "ordered_by_key", "start", "batches", "types", "headers")
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        GROUP_FIELD_NUMBER: _ClassVar[int]
        MEMBER_FIELD_NUMBER: _ClassVar[int]
        CREDIT_FIELD_NUMBER: _ClassVar[int]
        PARTITIONS_FIELD_NUMBER: _ClassVar[int]
        VISIBILITY_MS_FIELD_NUMBER: _ClassVar[int]
        AUTO_ACK_FIELD_NUMBER: _ClassVar[int]
        ORDERED_BY_KEY_FIELD_NUMBER: _ClassVar[int]
        START_FIELD_NUMBER: _ClassVar[int]
        BATCHES_FIELD_NUMBER: _ClassVar[int]
        TYPES_FIELD_NUMBER: _ClassVar[int]
        HEADERS_FIELD_NUMBER: _ClassVar[int]
        topic: str
        group: str
        member: str
        credit: int
        partitions: _containers.RepeatedScalarFieldContainer[int]
        visibility_ms: int
        auto_ack: bool
        ordered_by_key: bool
        start: Start
        batches: bool
        types: _containers.RepeatedScalarFieldContainer[str]
        headers: _containers.RepeatedCompositeFieldContainer[Header]
        def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., member: _Optional[str] = ..., credit: _Optional[int] = ..., partitions: _Optional[_Iterable[int]] = ..., visibility_ms: _Optional[int] = ..., auto_ack: _Optional[bool] = ..., ordered_by_key: _Optional[bool] = ..., start: _Optional[_Union[Start, _Mapping]] = ..., batches: _Optional[bool] = ..., types: _Optional[_Iterable[str]] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ...) -> None: ...
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    NACK_FIELD_NUMBER: _ClassVar[int]
    EXTEND_FIELD_NUMBER: _ClassVar[int]
    open: SubscribeRequest.Open
    credit: int
    ack: AckRequest
    nack: NackRequest
    extend: ExtendRequest
    def __init__(self, open: _Optional[_Union[SubscribeRequest.Open, _Mapping]] = ..., credit: _Optional[int] = ..., ack: _Optional[_Union[AckRequest, _Mapping]] = ..., nack: _Optional[_Union[NackRequest, _Mapping]] = ..., extend: _Optional[_Union[ExtendRequest, _Mapping]] = ...) -> None: ...

class SubscribeReply(_message.Message):
    __slots__ = ("messages", "deliveries", "visibility_ms", "expired", "expired_held")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_HELD_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    deliveries: _containers.RepeatedCompositeFieldContainer[Delivery]
    visibility_ms: int
    expired: _containers.RepeatedScalarFieldContainer[str]
    expired_held: _containers.RepeatedCompositeFieldContainer[Held]
    def __init__(self, messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., deliveries: _Optional[_Iterable[_Union[Delivery, _Mapping]]] = ..., visibility_ms: _Optional[int] = ..., expired: _Optional[_Iterable[str]] = ..., expired_held: _Optional[_Iterable[_Union[Held, _Mapping]]] = ...) -> None: ...

class LeaveQueueRequest(_message.Message):
    __slots__ = ("topic", "group", "member")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    member: str
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., member: _Optional[str] = ...) -> None: ...

class LeaveQueueReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CancelMessagesRequest(_message.Message):
    __slots__ = ("topic", "partition", "offsets", "idempotency_keys")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEYS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offsets: _containers.RepeatedScalarFieldContainer[int]
    idempotency_keys: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offsets: _Optional[_Iterable[int]] = ..., idempotency_keys: _Optional[_Iterable[bytes]] = ...) -> None: ...

class CancelMessagesReply(_message.Message):
    __slots__ = ("cancelled",)
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    cancelled: _containers.RepeatedCompositeFieldContainer[Receipt]
    def __init__(self, cancelled: _Optional[_Iterable[_Union[Receipt, _Mapping]]] = ...) -> None: ...

class ExplainMessageRequest(_message.Message):
    __slots__ = ("topic", "partition", "offset", "group")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    group: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., group: _Optional[str] = ...) -> None: ...

class ExplainMessageReply(_message.Message):
    __slots__ = ("state", "attempts", "reason", "holder", "remaining_ms", "history", "next")
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    state: str
    attempts: int
    reason: str
    holder: str
    remaining_ms: int
    history: _containers.RepeatedScalarFieldContainer[str]
    next: str
    def __init__(self, state: _Optional[str] = ..., attempts: _Optional[int] = ..., reason: _Optional[str] = ..., holder: _Optional[str] = ..., remaining_ms: _Optional[int] = ..., history: _Optional[_Iterable[str]] = ..., next: _Optional[str] = ...) -> None: ...

class ReadResultsRequest(_message.Message):
    __slots__ = ("topic", "partition", "group", "offsets", "wait_ms", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    group: str
    offsets: _containers.RepeatedScalarFieldContainer[int]
    wait_ms: int
    topic_id: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., group: _Optional[str] = ..., offsets: _Optional[_Iterable[int]] = ..., wait_ms: _Optional[int] = ..., topic_id: _Optional[int] = ...) -> None: ...

class ReadResultsReply(_message.Message):
    __slots__ = ("ended",)
    ENDED_FIELD_NUMBER: _ClassVar[int]
    ended: _containers.RepeatedCompositeFieldContainer[EndedMessage]
    def __init__(self, ended: _Optional[_Iterable[_Union[EndedMessage, _Mapping]]] = ...) -> None: ...

class EndedMessage(_message.Message):
    __slots__ = ("offset", "state", "result", "reason", "attempts")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    offset: int
    state: str
    result: bytes
    reason: str
    attempts: int
    def __init__(self, offset: _Optional[int] = ..., state: _Optional[str] = ..., result: _Optional[bytes] = ..., reason: _Optional[str] = ..., attempts: _Optional[int] = ...) -> None: ...

class JoinGroupRequest(_message.Message):
    __slots__ = ("topic", "group", "member", "client", "strategy", "session_ms", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    SESSION_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    member: str
    client: str
    strategy: str
    session_ms: int
    topic_id: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., member: _Optional[str] = ..., client: _Optional[str] = ..., strategy: _Optional[str] = ..., session_ms: _Optional[int] = ..., topic_id: _Optional[int] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("topic", "group", "member", "generation", "owned", "wait_ms", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    OWNED_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    member: str
    generation: int
    owned: _containers.RepeatedScalarFieldContainer[int]
    wait_ms: int
    topic_id: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., member: _Optional[str] = ..., generation: _Optional[int] = ..., owned: _Optional[_Iterable[int]] = ..., wait_ms: _Optional[int] = ..., topic_id: _Optional[int] = ...) -> None: ...

class LeaveGroupRequest(_message.Message):
    __slots__ = ("topic", "group", "member", "topic_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    member: str
    topic_id: int
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., member: _Optional[str] = ..., topic_id: _Optional[int] = ...) -> None: ...

class LeaveGroupReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GroupAssignment(_message.Message):
    __slots__ = ("generation", "partitions", "session_ms", "topic_id", "first_partitions")
    class Owned(_message.Message):
        __slots__ = ("partition", "epoch")
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        EPOCH_FIELD_NUMBER: _ClassVar[int]
        partition: int
        epoch: int
        def __init__(self, partition: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SESSION_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    generation: int
    partitions: _containers.RepeatedCompositeFieldContainer[GroupAssignment.Owned]
    session_ms: int
    topic_id: int
    first_partitions: int
    def __init__(self, generation: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[GroupAssignment.Owned, _Mapping]]] = ..., session_ms: _Optional[int] = ..., topic_id: _Optional[int] = ..., first_partitions: _Optional[int] = ...) -> None: ...

class ClaimPartitionRequest(_message.Message):
    __slots__ = ("group", "topic", "partition", "epoch", "topic_id")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    partition: int
    epoch: int
    topic_id: int
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., epoch: _Optional[int] = ..., topic_id: _Optional[int] = ...) -> None: ...

class ListStreamGroupsRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class ListStreamGroupsReply(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, groups: _Optional[_Iterable[str]] = ...) -> None: ...

class GroupRequest(_message.Message):
    __slots__ = ("topic", "group")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ...) -> None: ...

class StreamGroupDescription(_message.Message):
    __slots__ = ("generation", "strategy", "session_ms", "members", "rebalanced_ms_ago", "cause", "moved")
    class Member(_message.Message):
        __slots__ = ("name", "client", "partitions", "heard_ms_ago")
        NAME_FIELD_NUMBER: _ClassVar[int]
        CLIENT_FIELD_NUMBER: _ClassVar[int]
        PARTITIONS_FIELD_NUMBER: _ClassVar[int]
        HEARD_MS_AGO_FIELD_NUMBER: _ClassVar[int]
        name: str
        client: str
        partitions: _containers.RepeatedScalarFieldContainer[int]
        heard_ms_ago: int
        def __init__(self, name: _Optional[str] = ..., client: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ..., heard_ms_ago: _Optional[int] = ...) -> None: ...
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    SESSION_MS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    REBALANCED_MS_AGO_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    generation: int
    strategy: str
    session_ms: int
    members: _containers.RepeatedCompositeFieldContainer[StreamGroupDescription.Member]
    rebalanced_ms_ago: int
    cause: str
    moved: int
    def __init__(self, generation: _Optional[int] = ..., strategy: _Optional[str] = ..., session_ms: _Optional[int] = ..., members: _Optional[_Iterable[_Union[StreamGroupDescription.Member, _Mapping]]] = ..., rebalanced_ms_ago: _Optional[int] = ..., cause: _Optional[str] = ..., moved: _Optional[int] = ...) -> None: ...

class ListGroupsRequest(_message.Message):
    __slots__ = ("topic", "partitions")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class ListGroupsReply(_message.Message):
    __slots__ = ("groups",)
    class GroupsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.ScalarMap[str, str]
    def __init__(self, groups: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DescribeGroupRequest(_message.Message):
    __slots__ = ("topic", "group", "partitions")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class DescribeGroupReply(_message.Message):
    __slots__ = ("partitions",)
    class Member(_message.Message):
        __slots__ = ("name", "leased", "last_poll_ms_ago", "live")
        NAME_FIELD_NUMBER: _ClassVar[int]
        LEASED_FIELD_NUMBER: _ClassVar[int]
        LAST_POLL_MS_AGO_FIELD_NUMBER: _ClassVar[int]
        LIVE_FIELD_NUMBER: _ClassVar[int]
        name: str
        leased: int
        last_poll_ms_ago: int
        live: bool
        def __init__(self, name: _Optional[str] = ..., leased: _Optional[int] = ..., last_poll_ms_ago: _Optional[int] = ..., live: _Optional[bool] = ...) -> None: ...
    class Partition(_message.Message):
        __slots__ = ("kind", "floor", "next_offset", "log_start", "lag", "oldest_age_ms", "ready", "leased", "delayed", "dying", "dead_total", "acked_total", "failed_total", "expired_total", "cancelled_total", "paused", "members", "trimmed_total", "unburied", "held_back", "unused_ms")
        KIND_FIELD_NUMBER: _ClassVar[int]
        FLOOR_FIELD_NUMBER: _ClassVar[int]
        NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
        LOG_START_FIELD_NUMBER: _ClassVar[int]
        LAG_FIELD_NUMBER: _ClassVar[int]
        OLDEST_AGE_MS_FIELD_NUMBER: _ClassVar[int]
        READY_FIELD_NUMBER: _ClassVar[int]
        LEASED_FIELD_NUMBER: _ClassVar[int]
        DELAYED_FIELD_NUMBER: _ClassVar[int]
        DYING_FIELD_NUMBER: _ClassVar[int]
        DEAD_TOTAL_FIELD_NUMBER: _ClassVar[int]
        ACKED_TOTAL_FIELD_NUMBER: _ClassVar[int]
        FAILED_TOTAL_FIELD_NUMBER: _ClassVar[int]
        EXPIRED_TOTAL_FIELD_NUMBER: _ClassVar[int]
        CANCELLED_TOTAL_FIELD_NUMBER: _ClassVar[int]
        PAUSED_FIELD_NUMBER: _ClassVar[int]
        MEMBERS_FIELD_NUMBER: _ClassVar[int]
        TRIMMED_TOTAL_FIELD_NUMBER: _ClassVar[int]
        UNBURIED_FIELD_NUMBER: _ClassVar[int]
        HELD_BACK_FIELD_NUMBER: _ClassVar[int]
        UNUSED_MS_FIELD_NUMBER: _ClassVar[int]
        kind: str
        floor: int
        next_offset: int
        log_start: int
        lag: int
        oldest_age_ms: int
        ready: int
        leased: int
        delayed: int
        dying: int
        dead_total: int
        acked_total: int
        failed_total: int
        expired_total: int
        cancelled_total: int
        paused: bool
        members: _containers.RepeatedCompositeFieldContainer[DescribeGroupReply.Member]
        trimmed_total: int
        unburied: int
        held_back: int
        unused_ms: int
        def __init__(self, kind: _Optional[str] = ..., floor: _Optional[int] = ..., next_offset: _Optional[int] = ..., log_start: _Optional[int] = ..., lag: _Optional[int] = ..., oldest_age_ms: _Optional[int] = ..., ready: _Optional[int] = ..., leased: _Optional[int] = ..., delayed: _Optional[int] = ..., dying: _Optional[int] = ..., dead_total: _Optional[int] = ..., acked_total: _Optional[int] = ..., failed_total: _Optional[int] = ..., expired_total: _Optional[int] = ..., cancelled_total: _Optional[int] = ..., paused: _Optional[bool] = ..., members: _Optional[_Iterable[_Union[DescribeGroupReply.Member, _Mapping]]] = ..., trimmed_total: _Optional[int] = ..., unburied: _Optional[int] = ..., held_back: _Optional[int] = ..., unused_ms: _Optional[int] = ...) -> None: ...
    class PartitionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: DescribeGroupReply.Partition
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[DescribeGroupReply.Partition, _Mapping]] = ...) -> None: ...
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.MessageMap[int, DescribeGroupReply.Partition]
    def __init__(self, partitions: _Optional[_Mapping[int, DescribeGroupReply.Partition]] = ...) -> None: ...

class AlterGroupRequest(_message.Message):
    __slots__ = ("topic", "group", "settings")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    settings: _containers.ScalarMap[str, str]
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., settings: _Optional[_Mapping[str, str]] = ...) -> None: ...

class AlterGroupReply(_message.Message):
    __slots__ = ("settings",)
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    settings: _containers.ScalarMap[str, str]
    def __init__(self, settings: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ResetGroupRequest(_message.Message):
    __slots__ = ("topic", "group", "start", "partitions", "dry_run")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    start: Start
    partitions: _containers.RepeatedScalarFieldContainer[int]
    dry_run: bool
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., start: _Optional[_Union[Start, _Mapping]] = ..., partitions: _Optional[_Iterable[int]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class ResetGroupReply(_message.Message):
    __slots__ = ("partitions",)
    class Move(_message.Message):
        __slots__ = ("from_offset", "to_offset")
        FROM_OFFSET_FIELD_NUMBER: _ClassVar[int]
        TO_OFFSET_FIELD_NUMBER: _ClassVar[int]
        from_offset: int
        to_offset: int
        def __init__(self, from_offset: _Optional[int] = ..., to_offset: _Optional[int] = ...) -> None: ...
    class PartitionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: ResetGroupReply.Move
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[ResetGroupReply.Move, _Mapping]] = ...) -> None: ...
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.MessageMap[int, ResetGroupReply.Move]
    def __init__(self, partitions: _Optional[_Mapping[int, ResetGroupReply.Move]] = ...) -> None: ...

class DeleteGroupRequest(_message.Message):
    __slots__ = ("topic", "group", "partitions", "force")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    force: bool
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ..., force: _Optional[bool] = ...) -> None: ...

class DeleteGroupReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeadLettersRequest(_message.Message):
    __slots__ = ("topic", "group", "limit", "reason", "since_ms", "until_ms", "dry_run", "force")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    limit: int
    reason: str
    since_ms: int
    until_ms: int
    dry_run: bool
    force: bool
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., limit: _Optional[int] = ..., reason: _Optional[str] = ..., since_ms: _Optional[int] = ..., until_ms: _Optional[int] = ..., dry_run: _Optional[bool] = ..., force: _Optional[bool] = ...) -> None: ...

class DeadLetter(_message.Message):
    __slots__ = ("partition", "offset", "payload", "key", "headers", "topic", "origin_partition", "origin_offset", "reason", "attempts", "died_ms", "redriven")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_PARTITION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    DIED_MS_FIELD_NUMBER: _ClassVar[int]
    REDRIVEN_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    payload: bytes
    key: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    topic: str
    origin_partition: int
    origin_offset: int
    reason: str
    attempts: int
    died_ms: int
    redriven: int
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ..., payload: _Optional[bytes] = ..., key: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., topic: _Optional[str] = ..., origin_partition: _Optional[int] = ..., origin_offset: _Optional[int] = ..., reason: _Optional[str] = ..., attempts: _Optional[int] = ..., died_ms: _Optional[int] = ..., redriven: _Optional[int] = ...) -> None: ...

class DeadLettersReply(_message.Message):
    __slots__ = ("dead_letters",)
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    dead_letters: _containers.RepeatedCompositeFieldContainer[DeadLetter]
    def __init__(self, dead_letters: _Optional[_Iterable[_Union[DeadLetter, _Mapping]]] = ...) -> None: ...

class DeadLettersDone(_message.Message):
    __slots__ = ("done", "refused", "skipped")
    DONE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    done: int
    refused: int
    skipped: int
    def __init__(self, done: _Optional[int] = ..., refused: _Optional[int] = ..., skipped: _Optional[int] = ...) -> None: ...

class CreateTopicRequest(_message.Message):
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

class AlterTopicRequest(_message.Message):
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

class DeleteTopicRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class TrimTopicRequest(_message.Message):
    __slots__ = ("topic", "offsets")
    class OffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    offsets: _containers.ScalarMap[int, int]
    def __init__(self, topic: _Optional[str] = ..., offsets: _Optional[_Mapping[int, int]] = ...) -> None: ...

class PurgeTopicRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class TrimTopicReply(_message.Message):
    __slots__ = ("log_starts",)
    class LogStartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    LOG_STARTS_FIELD_NUMBER: _ClassVar[int]
    log_starts: _containers.ScalarMap[int, int]
    def __init__(self, log_starts: _Optional[_Mapping[int, int]] = ...) -> None: ...

class Topic(_message.Message):
    __slots__ = ("name", "topic_id", "partitions", "settings", "key_partitions", "owner")
    class Partition(_message.Message):
        __slots__ = ("number", "leader", "replicas", "term")
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        LEADER_FIELD_NUMBER: _ClassVar[int]
        REPLICAS_FIELD_NUMBER: _ClassVar[int]
        TERM_FIELD_NUMBER: _ClassVar[int]
        number: int
        leader: int
        replicas: _containers.RepeatedScalarFieldContainer[int]
        term: int
        def __init__(self, number: _Optional[int] = ..., leader: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., term: _Optional[int] = ...) -> None: ...
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
    KEY_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: int
    partitions: _containers.RepeatedCompositeFieldContainer[Topic.Partition]
    settings: _containers.ScalarMap[str, str]
    key_partitions: int
    owner: str
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[Topic.Partition, _Mapping]]] = ..., settings: _Optional[_Mapping[str, str]] = ..., key_partitions: _Optional[int] = ..., owner: _Optional[str] = ...) -> None: ...

class StageRequest(_message.Message):
    __slots__ = ("topic", "partition", "transaction_id", "batch", "topic_id", "timeout_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    transaction_id: str
    batch: bytes
    topic_id: int
    timeout_ms: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., transaction_id: _Optional[str] = ..., batch: _Optional[bytes] = ..., topic_id: _Optional[int] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class StageAckRequest(_message.Message):
    __slots__ = ("topic", "partition", "group", "transaction_id", "leases", "held", "timeout_ms", "results")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    group: str
    transaction_id: str
    leases: _containers.RepeatedScalarFieldContainer[str]
    held: _containers.RepeatedCompositeFieldContainer[Held]
    timeout_ms: int
    results: _containers.RepeatedCompositeFieldContainer[Result]
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., group: _Optional[str] = ..., transaction_id: _Optional[str] = ..., leases: _Optional[_Iterable[str]] = ..., held: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., timeout_ms: _Optional[int] = ..., results: _Optional[_Iterable[_Union[Result, _Mapping]]] = ...) -> None: ...

class StageReply(_message.Message):
    __slots__ = ("count", "begun_ms", "topic_id")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    BEGUN_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    count: int
    begun_ms: int
    topic_id: int
    def __init__(self, count: _Optional[int] = ..., begun_ms: _Optional[int] = ..., topic_id: _Optional[int] = ...) -> None: ...

class TopicPartition(_message.Message):
    __slots__ = ("topic", "partition")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class CommitTransactionRequest(_message.Message):
    __slots__ = ("transaction_id", "partitions", "application_id", "version", "begun_ms", "topic_ids")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BEGUN_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    partitions: _containers.RepeatedCompositeFieldContainer[TopicPartition]
    application_id: str
    version: int
    begun_ms: int
    topic_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, transaction_id: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[TopicPartition, _Mapping]]] = ..., application_id: _Optional[str] = ..., version: _Optional[int] = ..., begun_ms: _Optional[int] = ..., topic_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class AbortTransactionRequest(_message.Message):
    __slots__ = ("transaction_id", "partitions", "begun_ms")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    BEGUN_MS_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    partitions: _containers.RepeatedCompositeFieldContainer[TopicPartition]
    begun_ms: int
    def __init__(self, transaction_id: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[TopicPartition, _Mapping]]] = ..., begun_ms: _Optional[int] = ...) -> None: ...

class TransactionReply(_message.Message):
    __slots__ = ("repeated_version",)
    REPEATED_VERSION_FIELD_NUMBER: _ClassVar[int]
    repeated_version: bool
    def __init__(self, repeated_version: _Optional[bool] = ...) -> None: ...

class TransactionOutcomeRequest(_message.Message):
    __slots__ = ("topic", "partition", "transaction_id", "wait_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    transaction_id: str
    wait_ms: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., transaction_id: _Optional[str] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class TransactionOutcomeReply(_message.Message):
    __slots__ = ("shown", "batches", "begun_ms", "topic_id")
    class Batch(_message.Message):
        __slots__ = ("producer_id", "producer_sequence", "base_offset")
        PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
        PRODUCER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
        producer_id: int
        producer_sequence: int
        base_offset: int
        def __init__(self, producer_id: _Optional[int] = ..., producer_sequence: _Optional[int] = ..., base_offset: _Optional[int] = ...) -> None: ...
    SHOWN_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    BEGUN_MS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    shown: bool
    batches: _containers.RepeatedCompositeFieldContainer[TransactionOutcomeReply.Batch]
    begun_ms: int
    topic_id: int
    def __init__(self, shown: _Optional[bool] = ..., batches: _Optional[_Iterable[_Union[TransactionOutcomeReply.Batch, _Mapping]]] = ..., begun_ms: _Optional[int] = ..., topic_id: _Optional[int] = ...) -> None: ...

class ScheduleDefinition(_message.Message):
    __slots__ = ("topic", "cron", "every_ms", "time_zone", "start_ms", "missed", "missed_max", "payload", "key", "headers", "priority", "content_type")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    EVERY_MS_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    MISSED_MAX_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    cron: str
    every_ms: int
    time_zone: str
    start_ms: int
    missed: str
    missed_max: int
    payload: bytes
    key: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    priority: int
    content_type: int
    def __init__(self, topic: _Optional[str] = ..., cron: _Optional[str] = ..., every_ms: _Optional[int] = ..., time_zone: _Optional[str] = ..., start_ms: _Optional[int] = ..., missed: _Optional[str] = ..., missed_max: _Optional[int] = ..., payload: _Optional[bytes] = ..., key: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., priority: _Optional[int] = ..., content_type: _Optional[int] = ...) -> None: ...

class Schedule(_message.Message):
    __slots__ = ("name", "schedule_id", "definition", "paused", "created_ms", "runs", "last_ms", "produced_ms", "skipped_ms", "upcoming_ms", "error")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    LAST_MS_FIELD_NUMBER: _ClassVar[int]
    PRODUCED_MS_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_MS_FIELD_NUMBER: _ClassVar[int]
    UPCOMING_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    name: str
    schedule_id: int
    definition: ScheduleDefinition
    paused: bool
    created_ms: int
    runs: int
    last_ms: int
    produced_ms: int
    skipped_ms: int
    upcoming_ms: _containers.RepeatedScalarFieldContainer[int]
    error: str
    def __init__(self, name: _Optional[str] = ..., schedule_id: _Optional[int] = ..., definition: _Optional[_Union[ScheduleDefinition, _Mapping]] = ..., paused: _Optional[bool] = ..., created_ms: _Optional[int] = ..., runs: _Optional[int] = ..., last_ms: _Optional[int] = ..., produced_ms: _Optional[int] = ..., skipped_ms: _Optional[int] = ..., upcoming_ms: _Optional[_Iterable[int]] = ..., error: _Optional[str] = ...) -> None: ...

class CreateScheduleRequest(_message.Message):
    __slots__ = ("name", "definition", "update")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    name: str
    definition: ScheduleDefinition
    update: bool
    def __init__(self, name: _Optional[str] = ..., definition: _Optional[_Union[ScheduleDefinition, _Mapping]] = ..., update: _Optional[bool] = ...) -> None: ...

class ScheduleRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ScheduleReply(_message.Message):
    __slots__ = ("schedule",)
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    schedule: Schedule
    def __init__(self, schedule: _Optional[_Union[Schedule, _Mapping]] = ...) -> None: ...

class ListSchedulesRequest(_message.Message):
    __slots__ = ("name", "after", "upcoming")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    UPCOMING_FIELD_NUMBER: _ClassVar[int]
    name: str
    after: str
    upcoming: int
    def __init__(self, name: _Optional[str] = ..., after: _Optional[str] = ..., upcoming: _Optional[int] = ...) -> None: ...

class ListSchedulesReply(_message.Message):
    __slots__ = ("schedules", "next")
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    schedules: _containers.RepeatedCompositeFieldContainer[Schedule]
    next: str
    def __init__(self, schedules: _Optional[_Iterable[_Union[Schedule, _Mapping]]] = ..., next: _Optional[str] = ...) -> None: ...

class DescribeRequest(_message.Message):
    __slots__ = ("topics", "create")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    create: bool
    def __init__(self, topics: _Optional[_Iterable[str]] = ..., create: _Optional[bool] = ...) -> None: ...

class Broker(_message.Message):
    __slots__ = ("node", "client", "http", "grpc", "alive", "state", "version", "cluster_version_min", "cluster_version_max", "machine", "zone")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    HTTP_FIELD_NUMBER: _ClassVar[int]
    GRPC_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_VERSION_MIN_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_VERSION_MAX_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    node: int
    client: str
    http: str
    grpc: str
    alive: bool
    state: str
    version: str
    cluster_version_min: int
    cluster_version_max: int
    machine: str
    zone: str
    def __init__(self, node: _Optional[int] = ..., client: _Optional[str] = ..., http: _Optional[str] = ..., grpc: _Optional[str] = ..., alive: _Optional[bool] = ..., state: _Optional[str] = ..., version: _Optional[str] = ..., cluster_version_min: _Optional[int] = ..., cluster_version_max: _Optional[int] = ..., machine: _Optional[str] = ..., zone: _Optional[str] = ...) -> None: ...

class Cluster(_message.Message):
    __slots__ = ("cluster_id", "controller", "brokers", "topics", "cluster_name", "is_stale", "cluster_version")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_NAME_FIELD_NUMBER: _ClassVar[int]
    IS_STALE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    controller: int
    brokers: _containers.RepeatedCompositeFieldContainer[Broker]
    topics: _containers.RepeatedCompositeFieldContainer[Topic]
    cluster_name: str
    is_stale: bool
    cluster_version: int
    def __init__(self, cluster_id: _Optional[str] = ..., controller: _Optional[int] = ..., brokers: _Optional[_Iterable[_Union[Broker, _Mapping]]] = ..., topics: _Optional[_Iterable[_Union[Topic, _Mapping]]] = ..., cluster_name: _Optional[str] = ..., is_stale: _Optional[bool] = ..., cluster_version: _Optional[int] = ...) -> None: ...

class TransferLeadershipRequest(_message.Message):
    __slots__ = ("topic", "partition", "to")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    to: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., to: _Optional[int] = ...) -> None: ...

class TransferLeadershipReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
