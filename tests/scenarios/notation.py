"""The notation of entries, messages and replicas in scenarios: short, and the same on every machine."""

from flotilla.raft.configuration import decode_configuration
from flotilla.raft.messages import (
    CONFIG,
    NOOP,
    Append,
    AppendReply,
    CommitNews,
    Configuration,
    Entry,
    Heartbeat,
    HeartbeatReply,
    Message,
    Quiesce,
    ReadReply,
    ReadRequest,
    RepairReply,
    RepairRequest,
    SnapshotChunk,
    SnapshotReply,
    TimeoutNow,
    VerifyReply,
    VerifyRequest,
    VoteReply,
    VoteRequest,
)
from flotilla.types.ids import NodeId


def format_entry(entry: Entry) -> str:
    """`term/index body`."""
    return f"{entry.term}/{entry.index} {format_body(entry)}"


def format_body(entry: Entry) -> str:
    if entry.kind == NOOP:
        return "noop"
    if entry.kind == CONFIG:
        return f"config {format_configuration(decode_configuration(entry.data))}"
    return bytes(entry.data).decode("utf-8", "backslashreplace")


def format_configuration(configuration: Configuration) -> str:
    """`1,2,3`, `1,2,4<-1,2,3` while joint, `1,2+3` with a learner."""
    text = _listed(configuration.voters) or "none"
    if configuration.is_joint:
        text += f"<-{_listed(configuration.outgoing)}"
    if configuration.learners:
        text += f"+{_listed(configuration.learners)}"
    if configuration.learners_next:
        text += f" then +{_listed(configuration.learners_next)}"
    return text


def format_message(message: Message) -> str:
    """`1>2 t3 append after 2/7 [3/8 x] commit 7`: sender, receiver, term, what."""
    return f"{message.sender}>{message.to} t{message.term} {_content(message)}"


def _content(message: Message) -> str:
    match message:
        case VoteRequest():
            kind = "pre-vote?" if message.pre else "vote?"
            return f"{kind} last {message.last_term}/{message.last_index}" + " transfer" * message.transfer
        case VoteReply():
            return ("pre-vote " if message.pre else "vote ") + ("yes" if message.granted else "no")
        case Append():
            body = "".join(f" [{format_entry(entry)}]" for entry in message.entries)
            return f"append after {message.prev_term}/{message.prev_index}{body} commit {message.commit}"
        case AppendReply(accepted=True):
            return f"appended {message.index}"
        case AppendReply():
            return f"refused {message.index}, try {message.hint_term}/{message.hint_index}"
        case Heartbeat():
            return f"heartbeat commit {message.commit}" + f" read {message.read_id}" * bool(message.read_id)
        case HeartbeatReply():
            return "heartbeat heard" + f" read {message.read_id}" * bool(message.read_id)
        case CommitNews():
            return f"commit {message.commit}"
        case Quiesce():
            return f"quiesce at {message.commit}"
        case SnapshotChunk():
            end = message.offset + len(message.data)
            return f"snapshot {message.meta.index} bytes {message.offset}-{end} of {message.meta.size_bytes}"
        case SnapshotReply():
            return f"snapshot {message.index} has {message.offset}"
        case TimeoutNow():
            return "stand now"
        case VerifyRequest():
            return f"has? {message.index_term}/{message.index}"
        case VerifyReply():
            return "has it" if message.holds else f"has forgotten it, ends at {message.last_index}"
        case ReadRequest():
            return f"read? {message.read_id}"
        case ReadReply():
            return f"read {message.read_id} at {message.index}"
        case RepairRequest():
            return f"repair? {message.low}-{message.high - 1}"
        case RepairReply():
            notes = " absent" * message.absent + " compacted" * message.compacted
            return f"repair from {message.low}" + "".join(f" [{format_entry(e)}]" for e in message.entries) + notes
    raise AssertionError(f"no notation for {type(message).__name__}")


def _listed(nodes: tuple[NodeId, ...]) -> str:
    return ",".join(map(str, nodes))
