"""The gRPC contract as a table: how the messages of each call are read and written.

An endpoint decodes bytes to a message, reads the message to a value, and writes the value and its answer to a message
again. Reading raises InvalidArgumentError.
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from flotilla.codec.fields import Declared, Descriptor, fields_of, many
from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.grpc import admin as admin
from flotilla.codec.grpc import dead_letters as dead_letters
from flotilla.codec.grpc import queue as queue
from flotilla.codec.grpc import schedules as schedules
from flotilla.types import operations as ops
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import GRPC_MESSAGE_BYTES_MAX, GRPC_REQUEST_BYTES_MAX
from flotilla.types.operations import Reply, Request, stream, transactions
from flotilla.types.operations import schedules as of_schedules
from flotilla.types.operations.queue import AlterGroup, ExplainMessage, ReadResults

_SERVICE: Final = pb.DESCRIPTOR.services_by_name["Flotilla"]
SERVICE_NAME: Final[str] = _SERVICE.full_name
_WITH_RECORDS: Final = ("Produce", "ProduceStream", "Stage")


class Call(NamedTuple):
    """One unary call of the contract."""

    name: str
    #: A message of the contract to a value.
    read: Callable[[Any], Any]
    #: That value and its answer to a message.
    write: Callable[[Any, Any], Any]


def _derived(
    name: str,
    request: type[Request],
    *,
    asked: Declared = MappingProxyType({}),
    answered: Declared = MappingProxyType({}),
    read: Callable[[Any], Any] | None = None,
    write: Callable[[Any, Any], Any] | None = None,
) -> Call:
    """A call by the names of its fields; `asked` and `answered` declare what differs in the request and the reply."""
    method = _SERVICE.methods_by_name[name]
    if read is None:
        read = fields_of(request, method.input_type, **asked).read
    return Call(name, read, write or _writer(method.output_type, request.reply, answered))


def _writer(message: Descriptor, reply: type[Reply], declared: Declared) -> Callable[[Any, Any], Any]:
    fill = fields_of(reply, message, **declared).write
    make: Any = getattr(pb, message.name)

    def write(asked: Any, answer: Any) -> Any:
        found = make()
        fill(found, answer)
        return found

    return write


#: Calls that are one request to a broker.
REQUESTS: Final = (
    _derived("ListOffsets", ops.ListOffsets),
    _derived("CommitOffset", ops.CommitOffset),
    _derived("ReadOffset", ops.ReadOffset),
    _derived("ExplainMessage", ExplainMessage, read=admin.read_explain, answered={"ended_ms": None, "batch": None}),
    _derived("ReadResults", ReadResults),
    _derived("JoinGroup", stream.JoinGroup),
    _derived("Heartbeat", stream.Heartbeat),
    _derived("LeaveGroup", stream.LeaveGroup),
    _derived("ClaimPartition", stream.ClaimPartition),
    _derived("DescribeStreamGroup", stream.DescribeStreamGroup),
    _derived("ListStreamGroups", stream.ListStreamGroups),
    _derived("AlterGroup", AlterGroup),
    _derived("CreateTopic", ops.CreateTopic, asked={"owner": None}, write=admin.write_topic),
    _derived("AlterTopic", ops.AlterTopic, asked={"replication_factor": None}, write=admin.write_topic),
    _derived("DeleteTopic", ops.DeleteTopic, write=admin.write_topic),
    _derived("Stage", transactions.Stage, asked={"member": None}),
    _derived("StageAck", transactions.StageSettlement, read=admin.read_stage_ack),
    _derived(
        "CommitTransaction",
        transactions.CommitTransaction,
        asked={"members": None, "owner": None},
        answered={"is_repeated": "repeated_version"},
    ),
    _derived("AbortTransaction", transactions.AbortTransaction, answered={"is_repeated": "repeated_version"}),
    _derived("TransactionOutcome", transactions.TransactionOutcome, answered={"is_shown": "shown"}),
    _derived(
        "Describe",
        ops.GetMetadata,
        read=admin.read_describe,
        answered={
            "brokers": many("brokers", admin.BROKER),
            "topics": many("topics", admin.TOPIC),
            "index": None,
            "total": None,
        },
    ),
    _derived("TransferLeadership", ops.TransferLeadership),
    _derived("CreateSchedule", of_schedules.CreateSchedule, read=schedules.read_create, answered=schedules.ANSWERED),
    _derived("PauseSchedule", of_schedules.PauseSchedule, read=schedules.read_pause, answered=schedules.ANSWERED),
    _derived("ResumeSchedule", of_schedules.PauseSchedule, read=schedules.read_resume, answered=schedules.ANSWERED),
    _derived("RunSchedule", of_schedules.RunSchedule, read=schedules.read_run, answered=schedules.ANSWERED),
    _derived("DeleteSchedule", of_schedules.DeleteSchedule, read=schedules.read_delete, answered=schedules.ANSWERED),
    _derived("ListSchedules", of_schedules.ListSchedules, read=schedules.read_list, answered=schedules.LISTED),
)
#: Calls that are the same request to several partitions.
OF_PARTITIONS: Final = (
    Call("CancelMessages", admin.read_cancel, admin.write_cancelled),
    Call("ListGroups", admin.read_list_groups, admin.write_groups),
    Call("DescribeGroup", admin.read_describe_group, admin.write_group_descriptions),
)
RESET_GROUP: Final = Call("ResetGroup", admin.read_reset_group, admin.write_resets)
LEAVE_QUEUE: Final = Call("LeaveQueue", queue.read_leave, queue.write_left)
DELETE_GROUP: Final = Call("DeleteGroup", admin.read_delete_group, admin.write_group_deleted)
#: Calls that remove messages of a topic.
OF_TRIMMING: Final = (
    Call("TrimTopic", admin.read_trim, admin.write_trimmed),
    Call("PurgeTopic", admin.read_purge, admin.write_trimmed),
)
#: Calls that settle or extend leases.
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
    """Decodes a request of a call. It raises InvalidArgumentError."""
    kind_name = _SERVICE.methods_by_name[name].input_type.name
    kind: Any = getattr(pb, kind_name)
    bytes_max = GRPC_MESSAGE_BYTES_MAX if name in _WITH_RECORDS else GRPC_REQUEST_BYTES_MAX

    def read(data: bytes) -> Any:
        if len(data) > bytes_max:
            raise InvalidArgumentError(f"a request of {name} has at most {bytes_max} bytes, not {len(data)}")
        return decode(kind.FromString, data, kind_name)

    return read


def decode(reading: Callable[[bytes], Any], data: bytes, kind_name: str = "message of this call") -> Any:
    """Raises InvalidArgumentError."""
    try:
        return reading(data)
    except DecodeError as error:
        raise InvalidArgumentError(f"the bytes are no {kind_name}") from error


def encoder(name: str) -> Callable[[Any], bytes]:
    """Encodes the reply of a call."""
    kind: Any = getattr(pb, _SERVICE.methods_by_name[name].output_type.name)
    write: Callable[[Any], bytes] = kind.SerializeToString
    return write


#: Calls with large answers that clients can ask for again without losing anything.
REPEATABLE: Final = frozenset(("Fetch", "ListDeadLetters"))


def call_names() -> list[str]:
    """The names of all calls of the contract."""
    return [method.name for method in _SERVICE.methods]
