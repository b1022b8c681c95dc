"""The gRPC contract as a table: each call with how its messages are read and what is written in return.

A door needs nothing else of it: bytes become a message, a message becomes a value, and what was asked together with
what was answered becomes a message again. Reading raises InvalidArgumentError for what no broker would understand.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.grpc import admin as admin
from flotilla.codec.grpc import dead_letters as dead_letters
from flotilla.codec.grpc import queue as queue

_SERVICE: Final = pb.DESCRIPTOR.services_by_name["Flotilla"]
SERVICE_NAME: Final[str] = _SERVICE.full_name


class Call(NamedTuple):
    """One call of the contract that is answered once."""

    name: str
    #: A message of the contract to a value.
    read: Callable[[Any], Any]
    #: That value and its answer to a message.
    write: Callable[[Any, Any], Any]


#: Calls that are one request of the broker's, wherever it has to go.
REQUESTS: Final = (
    Call("ListOffsets", admin.read_list_offsets, admin.write_offset_found),
    Call("CommitOffset", admin.read_commit_offset, admin.write_offset),
    Call("ReadOffset", admin.read_read_offset, admin.write_offset),
    Call("ExplainMessage", admin.read_explain, admin.write_explanation),
    Call("JoinGroup", admin.read_join_group, admin.write_assignment),
    Call("Heartbeat", admin.read_heartbeat, admin.write_assignment),
    Call("LeaveGroup", admin.read_leave_group, admin.write_left),
    Call("ClaimPartition", admin.read_claim, admin.write_offset),
    Call("DescribeStreamGroup", admin.read_stream_group, admin.write_stream_group),
    Call("ListStreamGroups", admin.read_list_stream_groups, admin.write_stream_groups),
    Call("AlterGroup", admin.read_alter_group, admin.write_group_settings),
    Call("CreateTopic", admin.read_create_topic, admin.write_topic),
    Call("AlterTopic", admin.read_alter_topic, admin.write_topic),
    Call("DeleteTopic", admin.read_delete_topic, admin.write_topic),
    Call("Stage", admin.read_stage, admin.write_staged),
    Call("StageAck", admin.read_stage_ack, admin.write_staged),
    Call("CommitTransaction", admin.read_commit, admin.write_decided),
    Call("AbortTransaction", admin.read_abort, admin.write_decided),
    Call("TransactionOutcome", admin.read_outcome, admin.write_outcome),
    Call("Describe", admin.read_describe, admin.write_cluster),
    Call("TransferLeadership", admin.read_transfer, admin.write_transferred),
)
#: Calls that are the same request to several partitions.
OF_PARTITIONS: Final = (
    Call("CancelMessages", admin.read_cancel, admin.write_cancelled),
    Call("ListGroups", admin.read_list_groups, admin.write_groups),
    Call("DescribeGroup", admin.read_describe_group, admin.write_group_descriptions),
)
RESET_GROUP: Final = Call("ResetGroup", admin.read_reset_group, admin.write_resets)
DELETE_GROUP: Final = Call("DeleteGroup", admin.read_delete_group, admin.write_group_deleted)
#: Calls about leases.
OF_LEASES: Final = (
    Call("Ack", queue.read_ack, queue.write_settled),
    Call("Nack", queue.read_nack, queue.write_settled),
    Call("Extend", queue.read_extend, queue.write_settled),
)
LIST_DEAD_LETTERS: Final = Call("ListDeadLetters", dead_letters.read_list, dead_letters.write_letters)
REDRIVE_DEAD_LETTERS: Final = Call("RedriveDeadLetters", dead_letters.read_change, dead_letters.write_done)
PURGE_DEAD_LETTERS: Final = Call("PurgeDeadLetters", dead_letters.read_change, dead_letters.write_done)
FETCH: Final = Call("Fetch", queue.read_fetch, queue.write_fetched)
POLL: Final = Call("Poll", queue.read_poll, queue.write_polled)


def decoder(name: str) -> Callable[[bytes], Any]:
    """Bytes to the message that a call takes."""
    kind: Any = getattr(pb, _SERVICE.methods_by_name[name].input_type.name)
    read: Callable[[bytes], Any] = kind.FromString
    return read


def encoder(name: str) -> Callable[[Any], bytes]:
    """The message that a call returns to bytes."""
    kind: Any = getattr(pb, _SERVICE.methods_by_name[name].output_type.name)
    write: Callable[[Any], bytes] = kind.SerializeToString
    return write


def call_names() -> list[str]:
    """Everything that the contract offers."""
    return [method.name for method in _SERVICE.methods]
