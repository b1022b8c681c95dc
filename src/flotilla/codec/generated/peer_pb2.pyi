from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Frame(_message.Message):
    __slots__ = ("version", "sender", "target", "runs", "entries", "heartbeats", "heartbeat_replies", "quiesces", "appends", "append_replies", "commit_news", "vote_requests", "vote_replies", "snapshot_chunks", "snapshot_replies", "timeouts_now", "read_requests", "read_replies", "repair_requests", "repair_replies", "proposals", "verify_requests", "verify_replies")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    HEARTBEATS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_REPLIES_FIELD_NUMBER: _ClassVar[int]
    QUIESCES_FIELD_NUMBER: _ClassVar[int]
    APPENDS_FIELD_NUMBER: _ClassVar[int]
    APPEND_REPLIES_FIELD_NUMBER: _ClassVar[int]
    COMMIT_NEWS_FIELD_NUMBER: _ClassVar[int]
    VOTE_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    VOTE_REPLIES_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_CHUNKS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_REPLIES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUTS_NOW_FIELD_NUMBER: _ClassVar[int]
    READ_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    READ_REPLIES_FIELD_NUMBER: _ClassVar[int]
    REPAIR_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    REPAIR_REPLIES_FIELD_NUMBER: _ClassVar[int]
    PROPOSALS_FIELD_NUMBER: _ClassVar[int]
    VERIFY_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    VERIFY_REPLIES_FIELD_NUMBER: _ClassVar[int]
    version: int
    sender: int
    target: int
    runs: _containers.RepeatedScalarFieldContainer[int]
    entries: _containers.RepeatedScalarFieldContainer[int]
    heartbeats: _containers.RepeatedScalarFieldContainer[int]
    heartbeat_replies: _containers.RepeatedScalarFieldContainer[int]
    quiesces: _containers.RepeatedScalarFieldContainer[int]
    appends: _containers.RepeatedScalarFieldContainer[int]
    append_replies: _containers.RepeatedScalarFieldContainer[int]
    commit_news: _containers.RepeatedScalarFieldContainer[int]
    vote_requests: _containers.RepeatedCompositeFieldContainer[VoteRequest]
    vote_replies: _containers.RepeatedCompositeFieldContainer[VoteReply]
    snapshot_chunks: _containers.RepeatedCompositeFieldContainer[SnapshotChunk]
    snapshot_replies: _containers.RepeatedCompositeFieldContainer[SnapshotReply]
    timeouts_now: _containers.RepeatedCompositeFieldContainer[TimeoutNow]
    read_requests: _containers.RepeatedCompositeFieldContainer[ReadRequest]
    read_replies: _containers.RepeatedCompositeFieldContainer[ReadReply]
    repair_requests: _containers.RepeatedCompositeFieldContainer[RepairRequest]
    repair_replies: _containers.RepeatedCompositeFieldContainer[RepairReply]
    proposals: _containers.RepeatedCompositeFieldContainer[Proposal]
    verify_requests: _containers.RepeatedCompositeFieldContainer[VerifyRequest]
    verify_replies: _containers.RepeatedCompositeFieldContainer[VerifyReply]
    def __init__(self, version: _Optional[int] = ..., sender: _Optional[int] = ..., target: _Optional[int] = ..., runs: _Optional[_Iterable[int]] = ..., entries: _Optional[_Iterable[int]] = ..., heartbeats: _Optional[_Iterable[int]] = ..., heartbeat_replies: _Optional[_Iterable[int]] = ..., quiesces: _Optional[_Iterable[int]] = ..., appends: _Optional[_Iterable[int]] = ..., append_replies: _Optional[_Iterable[int]] = ..., commit_news: _Optional[_Iterable[int]] = ..., vote_requests: _Optional[_Iterable[_Union[VoteRequest, _Mapping]]] = ..., vote_replies: _Optional[_Iterable[_Union[VoteReply, _Mapping]]] = ..., snapshot_chunks: _Optional[_Iterable[_Union[SnapshotChunk, _Mapping]]] = ..., snapshot_replies: _Optional[_Iterable[_Union[SnapshotReply, _Mapping]]] = ..., timeouts_now: _Optional[_Iterable[_Union[TimeoutNow, _Mapping]]] = ..., read_requests: _Optional[_Iterable[_Union[ReadRequest, _Mapping]]] = ..., read_replies: _Optional[_Iterable[_Union[ReadReply, _Mapping]]] = ..., repair_requests: _Optional[_Iterable[_Union[RepairRequest, _Mapping]]] = ..., repair_replies: _Optional[_Iterable[_Union[RepairReply, _Mapping]]] = ..., proposals: _Optional[_Iterable[_Union[Proposal, _Mapping]]] = ..., verify_requests: _Optional[_Iterable[_Union[VerifyRequest, _Mapping]]] = ..., verify_replies: _Optional[_Iterable[_Union[VerifyReply, _Mapping]]] = ...) -> None: ...

class VoteRequest(_message.Message):
    __slots__ = ("group", "term", "last_index", "last_term", "pre", "transfer")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_TERM_FIELD_NUMBER: _ClassVar[int]
    PRE_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    group: int
    term: int
    last_index: int
    last_term: int
    pre: bool
    transfer: bool
    def __init__(self, group: _Optional[int] = ..., term: _Optional[int] = ..., last_index: _Optional[int] = ..., last_term: _Optional[int] = ..., pre: _Optional[bool] = ..., transfer: _Optional[bool] = ...) -> None: ...

class VoteReply(_message.Message):
    __slots__ = ("group", "term", "granted", "pre")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    PRE_FIELD_NUMBER: _ClassVar[int]
    group: int
    term: int
    granted: bool
    pre: bool
    def __init__(self, group: _Optional[int] = ..., term: _Optional[int] = ..., granted: _Optional[bool] = ..., pre: _Optional[bool] = ...) -> None: ...

class SnapshotChunk(_message.Message):
    __slots__ = ("group", "term", "index", "index_term", "log_index", "log_term", "configuration", "snapshot_size_bytes", "offset", "size_bytes")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    INDEX_TERM_FIELD_NUMBER: _ClassVar[int]
    LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    LOG_TERM_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    group: int
    term: int
    index: int
    index_term: int
    log_index: int
    log_term: int
    configuration: bytes
    snapshot_size_bytes: int
    offset: int
    size_bytes: int
    def __init__(self, group: _Optional[int] = ..., term: _Optional[int] = ..., index: _Optional[int] = ..., index_term: _Optional[int] = ..., log_index: _Optional[int] = ..., log_term: _Optional[int] = ..., configuration: _Optional[bytes] = ..., snapshot_size_bytes: _Optional[int] = ..., offset: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class SnapshotReply(_message.Message):
    __slots__ = ("group", "term", "index", "offset")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    group: int
    term: int
    index: int
    offset: int
    def __init__(self, group: _Optional[int] = ..., term: _Optional[int] = ..., index: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class TimeoutNow(_message.Message):
    __slots__ = ("group", "term", "reason")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    group: int
    term: int
    reason: int
    def __init__(self, group: _Optional[int] = ..., term: _Optional[int] = ..., reason: _Optional[int] = ...) -> None: ...

class VerifyRequest(_message.Message):
    __slots__ = ("group", "term", "index", "index_term", "verify_id")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    INDEX_TERM_FIELD_NUMBER: _ClassVar[int]
    VERIFY_ID_FIELD_NUMBER: _ClassVar[int]
    group: int
    term: int
    index: int
    index_term: int
    verify_id: int
    def __init__(self, group: _Optional[int] = ..., term: _Optional[int] = ..., index: _Optional[int] = ..., index_term: _Optional[int] = ..., verify_id: _Optional[int] = ...) -> None: ...

class VerifyReply(_message.Message):
    __slots__ = ("group", "term", "verify_id", "holds", "last_index")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    VERIFY_ID_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    group: int
    term: int
    verify_id: int
    holds: bool
    last_index: int
    def __init__(self, group: _Optional[int] = ..., term: _Optional[int] = ..., verify_id: _Optional[int] = ..., holds: _Optional[bool] = ..., last_index: _Optional[int] = ...) -> None: ...

class Proposal(_message.Message):
    __slots__ = ("group", "term", "data")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    group: int
    term: int
    data: bytes
    def __init__(self, group: _Optional[int] = ..., term: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("group", "term", "read_id")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    READ_ID_FIELD_NUMBER: _ClassVar[int]
    group: int
    term: int
    read_id: int
    def __init__(self, group: _Optional[int] = ..., term: _Optional[int] = ..., read_id: _Optional[int] = ...) -> None: ...

class ReadReply(_message.Message):
    __slots__ = ("group", "term", "read_id", "index")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    READ_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    group: int
    term: int
    read_id: int
    index: int
    def __init__(self, group: _Optional[int] = ..., term: _Optional[int] = ..., read_id: _Optional[int] = ..., index: _Optional[int] = ...) -> None: ...

class RepairRequest(_message.Message):
    __slots__ = ("group", "term", "low", "high")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    group: int
    term: int
    low: int
    high: int
    def __init__(self, group: _Optional[int] = ..., term: _Optional[int] = ..., low: _Optional[int] = ..., high: _Optional[int] = ...) -> None: ...

class RepairReply(_message.Message):
    __slots__ = ("group", "term", "low", "entry_count", "absent", "compacted")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    ENTRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    ABSENT_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_FIELD_NUMBER: _ClassVar[int]
    group: int
    term: int
    low: int
    entry_count: int
    absent: bool
    compacted: bool
    def __init__(self, group: _Optional[int] = ..., term: _Optional[int] = ..., low: _Optional[int] = ..., entry_count: _Optional[int] = ..., absent: _Optional[bool] = ..., compacted: _Optional[bool] = ...) -> None: ...
