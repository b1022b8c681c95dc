"""Frames between nodes: they round-trip, keep their order, and refuse everything that is not a frame."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from flotilla.codec.generated import peer_pb2
from flotilla.codec.peer.frames import (
    ENVELOPE_BYTES_MAX,
    PROTOCOL_VERSION,
    decode_frame,
    encode_frame,
    framed_bytes_max,
)
from flotilla.codec.peer.messages import CODECS
from flotilla.raft.messages import (
    CONFIG,
    DATA,
    Append,
    AppendReply,
    Configuration,
    Entry,
    Heartbeat,
    HeartbeatReply,
    Message,
    Quiesce,
    SnapshotChunk,
    SnapshotMeta,
    TimeoutNow,
    VoteReply,
)
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import ENTRY_BYTES_MAX, PEER_FRAME_BYTES_MAX, SNAPSHOT_BYTES_MAX, SNAPSHOT_CHUNK_BYTES_MAX
from tests.unit.codec.strategies import MESSAGES, SENDER, TARGET, frames

FRAME = [
    (1, Heartbeat(1, 2, 5, 40, 7)),
    (2, Heartbeat(1, 2, 5, 41, 0)),
    (9, Append(1, 2, 5, 3, 4, 3, [Entry(4, 5, DATA, b"small"), Entry(5, 5, DATA, b"L" * 5000)])),
    (3, Heartbeat(1, 2, 6, 42, 0)),
    (9, VoteReply(1, 2, 5, True)),
    (4, SnapshotChunk(1, 2, 5, SnapshotMeta(9, 4, 2, 1, Configuration((1, 2, 3)), 10), 4, b"pieces")),
]


def joined(messages: list) -> bytes:
    return b"".join(encode_frame(messages))


def sealed(envelope: bytes, bodies: bytes = b"", length: int | None = None) -> bytes:
    """A frame whose checksum holds, whatever it says."""
    rest = struct.pack(">I", len(envelope) if length is None else length) + envelope + bodies
    return struct.pack(">I", crc32c(rest)) + rest


def lying(bodies: bytes = b"", **fields: object) -> bytes:
    said = {"version": PROTOCOL_VERSION, "sender": 1, "target": 2} | fields
    return sealed(peer_pb2.Frame(**said).SerializeToString(), bodies)


def all_message_types() -> set[type[Message]]:
    found: set[type[Message]] = set()
    waiting = list(Message.__subclasses__())
    while waiting:
        kind = waiting.pop()
        # A slotted dataclass is made twice; the first making lingers until it is collected.
        if getattr(__import__(kind.__module__, fromlist=["_"]), kind.__name__, None) is kind:
            found.add(kind)
        waiting += kind.__subclasses__()
    return found


def test_every_message_type_is_known_to_the_codec_and_to_these_tests():
    assert all_message_types() == set(CODECS) == set(MESSAGES)


def test_every_message_field_of_the_envelope_belongs_to_one_message_type():
    not_messages = {"version", "sender", "target", "runs", "entries"}
    fields = [field.name for field in peer_pb2.Frame.DESCRIPTOR.fields if field.name not in not_messages]
    assert sorted(fields) == sorted(codec.field for codec in CODECS.values())


@given(frames)
def test_round_trip_keeps_messages_and_their_order(messages):
    decoded = decode_frame(joined(messages))
    assert decoded == messages
    assert [type(message) for _, message in decoded] == [type(message) for _, message in messages]


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_each_kind_round_trips_alone(kind):
    @settings(max_examples=25)
    @given(MESSAGES[kind])
    def check(message):
        assert decode_frame(joined([(7, message)])) == [(7, message)]

    check()


@given(frames)
def test_a_frame_never_exceeds_what_its_messages_announce(messages):
    assert len(joined(messages)) <= 64 + sum(framed_bytes_max(message) for _, message in messages)


def test_large_bodies_are_neither_copied_in_nor_out():
    body = memoryview(bytearray(b"x" * 100_000))
    buffers = encode_frame([(1, Append(1, 2, 1, 0, 0, 0, [Entry(1, 1, DATA, body)]))])
    assert any(buffer is body for buffer in buffers)
    data = b"".join(buffers)
    ((_, message),) = decode_frame(memoryview(data))
    assert isinstance(message, Append)
    entry = message.entries[0]
    assert isinstance(entry.data, memoryview)
    assert entry.data.obj is data


def test_small_bodies_do_not_hold_the_frame():
    data = joined([(1, Append(1, 2, 1, 0, 0, 0, [Entry(1, 1, DATA, b"x" * 4096)]))])
    ((_, message),) = decode_frame(memoryview(data))
    assert isinstance(message, Append)
    assert type(message.entries[0].data) is bytes


def test_small_messages_are_one_buffer():
    assert len(encode_frame([(g, Heartbeat(1, 2, 3, 4)) for g in range(1000)])) == 1


@pytest.mark.parametrize(
    ("message", "bytes_max"),
    [(Heartbeat(1, 2, 300, 100_000, 0), 8), (HeartbeatReply(1, 2, 300, 0), 6), (Quiesce(1, 2, 300, 100_000), 8)],
)
def test_coalesced_kinds_cost_a_few_bytes_per_group(message, bytes_max):
    size = len(joined([(group, message) for group in range(1000)]))
    assert size < 1000 * bytes_max + 64


def test_the_same_messages_give_the_same_bytes():
    assert joined(FRAME) == joined(FRAME)


def test_bytes_of_version_1_stay_readable():
    """Recorded from the first release of the protocol; a change here is a new protocol version."""
    recorded = bytes.fromhex(RECORDED)
    assert decode_frame(recorded) == FRAME[:2] + FRAME[4:]
    assert joined(FRAME[:2] + FRAME[4:]) == recorded


SINGLE = [
    Append(1, 2, 5, 3, 4, 3, [Entry(4, 5, DATA, b"small")]),
    AppendReply(2, 1, 5, 4, True),
    AppendReply(2, 1, 5, 4, False, 3, 2),
]
# A prefix without an envelope, the kind, then numbers of eight bytes.
RECORDED_SINGLE = [
    "971d932800000000" + "01" + "".join(f"{cell:016x}" for cell in (1, 2, 9, 5, 3, 4, 3, 4, 5, 1)) + b"small".hex(),
    "7d1704c300000000" + "02" + "".join(f"{cell:016x}" for cell in (2, 1, 9, 5, 4, 1, 0, 0)),
    "da67a44200000000" + "02" + "".join(f"{cell:016x}" for cell in (2, 1, 9, 5, 4, 0, 3, 2)),
]


@pytest.mark.parametrize(("message", "recorded"), list(zip(SINGLE, RECORDED_SINGLE, strict=True)))
def test_bytes_of_the_short_form_stay_readable(message, recorded):
    assert joined([(9, message)]).hex() == recorded
    assert decode_frame(bytes.fromhex(recorded)) == [(9, message)]


@pytest.mark.parametrize("message", SINGLE, ids=["append", "accepted", "refused"])
def test_a_single_message_is_read_in_its_long_form_too(message):
    """A sender uses the long form for two messages of a kind."""
    long = joined([(9, message), (9, message)])
    assert len(long) != len(joined([(9, message)]))
    assert decode_frame(long) == [(9, message), (9, message)]


RECORDED = (
    "83e73f250000003b080110011802220606020c010d013208010528070205290062060809100518016a19080410051809"
    "2004280230013a050a03010203400a48045006706965636573"
)


@pytest.mark.parametrize(
    "messages",
    [
        [(1, Heartbeat(1, 2, 3, 4)), (1, Heartbeat(2, 2, 3, 4))],
        [(1, Heartbeat(1, 2, 3, 4)), (1, Heartbeat(1, 3, 3, 4))],
        [(1, Heartbeat(0, 2, 3, 4))],
        [(1, Heartbeat(1, 0, 3, 4))],
    ],
    ids=["two senders", "two targets", "no sender", "no target"],
)
def test_one_frame_has_one_sender_and_one_target(messages):
    with pytest.raises(AssertionError):
        encode_frame(messages)


def test_a_frame_over_the_limit_is_not_made():
    body = memoryview(bytes(ENTRY_BYTES_MAX))
    entries = [Entry(1, 1, DATA, body), Entry(2, 1, DATA, body)]
    with pytest.raises(InvalidArgumentError, match="over the limit"):
        encode_frame([(1, Append(1, 2, 1, 0, 0, 0, entries))])


def test_an_entry_of_the_largest_size_fits():
    messages = [(1, Append(1, 2, 1, 0, 0, 0, [Entry(1, 1, DATA, bytes(ENTRY_BYTES_MAX))]))]
    assert decode_frame(joined(messages)) == messages


# Damage: found by the checksum.


@pytest.mark.parametrize("number", [2**63, 2**64 - 1])
@pytest.mark.parametrize(
    "message",
    [
        lambda number: Heartbeat(1, 2, number, 40, 7),
        lambda number: Heartbeat(1, 2, 5, number, 7),
        lambda number: Append(1, 2, number, 3, 4, 3, [Entry(4, 5, DATA, b"short form")]),
        lambda number: Append(1, 2, 5, 3, 4, 3, [Entry(number, 5, DATA, b"short form")]),
        lambda number: Append(1, 2, 5, 3, 4, 3, [Entry(4, 5, DATA, b"a"), Entry(5, number, DATA, b"b")]),
        lambda number: AppendReply(1, 2, 5, 3, False, number, 4),
        lambda number: VoteReply(1, 2, number, True),
        lambda number: SnapshotChunk(1, 2, 5, SnapshotMeta(9, number, 2, 1, Configuration((1,)), 10), 4, b"pieces"),
        lambda number: SnapshotChunk(1, 2, 5, SnapshotMeta(9, 4, 2, 1, Configuration((1, number)), 10), 4, b"pieces"),
        lambda number: Heartbeat(number, 2, 5, 40, 7),
    ],
)
def test_a_number_that_nothing_counts_up_to_is_refused(message, number):
    with pytest.raises(InvalidArgumentError, match="is over"):
        decode_frame(joined([(1, message(number))]))


def test_every_truncation_is_refused():
    data = joined(FRAME)
    for end in range(len(data)):
        with pytest.raises(InvalidArgumentError):
            decode_frame(data[:end])


def test_every_flipped_bit_is_refused():
    data = bytearray(joined([(9, Append(1, 2, 5, 3, 4, 3, [Entry(4, 5, DATA, b"small")]))]))
    for position in range(len(data) * 8):
        data[position // 8] ^= 1 << position % 8
        with pytest.raises(InvalidArgumentError):
            decode_frame(bytes(data))
        data[position // 8] ^= 1 << position % 8


def test_trailing_bytes_are_refused():
    with pytest.raises(InvalidArgumentError):
        decode_frame(joined(FRAME) + b"\0")


def test_a_frame_over_the_limit_is_not_read():
    with pytest.raises(InvalidArgumentError):
        decode_frame(bytes(PEER_FRAME_BYTES_MAX + 1))


# Lies: the checksum holds, the content does not.


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_decoded_never_worse(data):
    for attempt in (data, sealed(data), sealed(data[:50], data[50:])):
        try:
            decode_frame(attempt)
        except InvalidArgumentError:
            pass


@settings(max_examples=300)
@given(frames, st.data())
def test_damaged_envelopes_behind_a_true_checksum_are_refused_or_decoded_never_worse(messages, data):
    whole = bytearray(joined(messages)[8:])
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    try:
        decoded = decode_frame(sealed(bytes(whole[:cut]), bytes(whole[cut:])))
    except InvalidArgumentError:
        return
    # What is believed can be said again.
    assert decode_frame(joined(decoded)) == decoded


HEARTBEATS = CODECS[Heartbeat].number
APPENDS = CODECS[Append].number
APPEND_REPLIES = CODECS[AppendReply].number
CHUNKS = CODECS[SnapshotChunk].number
TIMEOUTS = CODECS[TimeoutNow].number
READ_REPLIES = next(codec.number for codec in CODECS.values() if codec.field == "read_replies")


def chunk(**fields: object) -> dict[str, object]:
    return {"runs": [CHUNKS, 1], "snapshot_chunks": [peer_pb2.SnapshotChunk(group=1, term=1, **fields)]}


LIES = {
    "another version": {"version": 2, "runs": [HEARTBEATS, 1], "heartbeats": [1, 1, 1, 0]},
    "no sender": {"sender": 0, "runs": [HEARTBEATS, 1], "heartbeats": [1, 1, 1, 0]},
    "no target": {"target": 0, "runs": [HEARTBEATS, 1], "heartbeats": [1, 1, 1, 0]},
    "no messages": {},
    "messages without runs": {"heartbeats": [1, 1, 1, 0]},
    "half a run": {"runs": [HEARTBEATS], "heartbeats": [1, 1, 1, 0]},
    "a run of nothing": {"runs": [HEARTBEATS, 0], "heartbeats": []},
    "a run of no message": {"runs": [5, 1], "entries": [1, 1, 1, 0]},
    "a run of an unknown field": {"runs": [999, 1]},
    "too many announced": {"runs": [HEARTBEATS, 2**32 - 1], "heartbeats": [1, 1, 1, 0]},
    "too few announced": {"runs": [HEARTBEATS, 1], "heartbeats": [1, 1, 1, 0] * 2},
    "half a row": {"runs": [HEARTBEATS, 1], "heartbeats": [1, 1, 1]},
    "a row and a half": {"runs": [HEARTBEATS, 1], "heartbeats": [1, 1, 1, 0, 1]},
    "rare messages missing": {"runs": [TIMEOUTS, 1]},
    "entries missing": {"runs": [APPENDS, 1], "appends": [1, 1, 0, 0, 0, 2**40]},
    "entries left over": {"runs": [APPENDS, 1], "appends": [1, 1, 0, 0, 0, 0], "entries": [1, 1, 1, 0]},
    "half an entry left over": {"runs": [APPENDS, 1], "appends": [1, 1, 0, 0, 0, 0], "entries": [1, 1]},
    "a body missing": {"runs": [APPENDS, 1], "appends": [1, 1, 0, 0, 0, 1], "entries": [1, 1, 1, 9]},
    "an entry too large": {
        "runs": [APPENDS, 1],
        "appends": [1, 1, 0, 0, 0, 1],
        "entries": [1, 1, 1, ENTRY_BYTES_MAX + 1],
    },
    "an entry beyond all sizes": {"runs": [APPENDS, 1], "appends": [1, 1, 0, 0, 0, 1], "entries": [1, 1, 1, 2**63 - 1]},
    "an entry of no kind": {"runs": [APPENDS, 1], "appends": [1, 1, 0, 0, 0, 1], "entries": [1, 1, 4, 0]},
    "accepted twice": {"runs": [APPEND_REPLIES, 1], "append_replies": [1, 1, 1, 2, 0, 0]},
    "a chunk too large": chunk(size_bytes=SNAPSHOT_CHUNK_BYTES_MAX + 1, snapshot_size_bytes=SNAPSHOT_BYTES_MAX),
    "a snapshot too large": chunk(snapshot_size_bytes=SNAPSHOT_BYTES_MAX + 1),
    "a chunk outside of its snapshot": chunk(offset=10, snapshot_size_bytes=9),
    "a chunk without its body": chunk(size_bytes=5, snapshot_size_bytes=5),
    "a chunk with a broken configuration": chunk(configuration=b"\xff"),
    "a chunk with node 0": chunk(configuration=b"\x0a\x01\x00"),
    "a read index below -1": {
        "runs": [READ_REPLIES, 1],
        "read_replies": [peer_pb2.ReadReply(group=1, term=1, read_id=1, index=-2)],
    },
}


REASONS = {
    "another version": "version 2",
    "no sender": "has no sender or target",
    "no target": "has no sender or target",
    "no messages": "no pairs",
    "messages without runs": "no pairs",
    "half a run": "no pairs",
    "a run of nothing": "other messages",
    "a run of no message": "holds no messages",
    "a run of an unknown field": "holds no messages",
    "too many announced": "other messages",
    "too few announced": "more messages",
    "half a row": "other messages",
    "a row and a half": "more messages",
    "rare messages missing": "other messages",
    "entries missing": "announces more entries",
    "entries left over": "more entries than",
    "half an entry left over": "more entries than",
    "a body missing": "cut short",
    "an entry too large": "over the limit",
    "an entry beyond all sizes": "over the limit",
    "an entry of no kind": "of kind 4",
    "accepted twice": "accepted is 0 or 1",
    "a chunk too large": "a piece of .* over the limit",
    "a snapshot too large": "a snapshot of .* over the limit",
    "a chunk outside of its snapshot": "is outside",
    "a chunk without its body": "cut short",
    "a chunk with a broken configuration": "no configuration",
    "a chunk with node 0": "node 0",
    "a read index below -1": "no index -2",
}


def test_every_lie_has_its_reason():
    assert LIES.keys() == REASONS.keys()


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_refused_for_their_own_reason(lie):
    with pytest.raises(InvalidArgumentError, match=REASONS[lie]):
        decode_frame(lying(**LIES[lie]))


def single(kind: int, *cells: int, more: bytes = b"") -> bytes:
    return sealed(b"", struct.pack(f">B{len(cells)}Q", kind, *cells) + more)


SHORT_LIES = {
    "nothing at all": (sealed(b""), "of kind 0 and has 0 bytes"),
    "no kind": (single(3, 1, 2, 9, 5, 4, 1, 0, 0), "of kind 3"),
    "an append cut short": (single(1, 1, 2, 9, 5, 3, 4, 3, 4, 5), "of kind 1 and has 73 bytes"),
    "an append with a long body": (single(1, 1, 2, 9, 5, 3, 4, 3, 4, 5, 1, more=bytes(4097)), "of kind 1"),
    "an append without a sender": (single(1, 0, 2, 9, 5, 3, 4, 3, 4, 5, 1), "has no sender or target"),
    "an append without a target": (single(1, 1, 0, 9, 5, 3, 4, 3, 4, 5, 1), "has no sender or target"),
    "an entry of no kind": (single(1, 1, 2, 9, 5, 3, 4, 3, 4, 5, 4), "of kind 4"),
    "a reply cut short": (single(2, 2, 1, 9, 5, 4, 1, 0), "of kind 2 and has 57 bytes"),
    "a reply that goes on": (single(2, 2, 1, 9, 5, 4, 1, 0, 0, more=b"x"), "of kind 2 and has 66 bytes"),
    "a reply without a sender": (single(2, 0, 1, 9, 5, 4, 1, 0, 0), "has no sender or target"),
    "a reply without a target": (single(2, 2, 0, 9, 5, 4, 1, 0, 0), "has no sender or target"),
    "accepted twice": (single(2, 2, 1, 9, 5, 4, 2, 0, 0), "accepted is 0 or 1"),
}


@pytest.mark.parametrize("lie", SHORT_LIES)
def test_lies_in_the_short_form_are_refused_for_their_own_reason(lie):
    data, reason = SHORT_LIES[lie]
    with pytest.raises(InvalidArgumentError, match=reason):
        decode_frame(data)


@settings(max_examples=300)
@given(st.sampled_from(SINGLE), st.data())
def test_damaged_short_forms_behind_a_true_checksum_are_refused_or_decoded_never_worse(message, data):
    whole = bytearray(joined([(9, message)])[8:])
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = decode_frame(sealed(b"", bytes(whole[: data.draw(st.integers(0, len(whole)))])))
    except InvalidArgumentError:
        return
    assert decode_frame(joined(decoded)) == decoded


def test_bodies_left_over_are_refused():
    with pytest.raises(InvalidArgumentError):
        decode_frame(lying(b"more", runs=[HEARTBEATS, 1], heartbeats=[1, 1, 1, 0]))


def test_an_honest_frame_decodes():
    """The frame all lies are made from decodes, so each lie fails for its own reason."""
    decoded = decode_frame(lying(runs=[HEARTBEATS, 1], heartbeats=[1, 1, 1, 0]))
    assert decoded == [(1, Heartbeat(1, 2, 1, 1, 0))]


@pytest.mark.parametrize("length", [1_000, 2**32 - 1])
def test_an_envelope_longer_than_its_frame_is_refused(length):
    with pytest.raises(InvalidArgumentError, match="too long"):
        decode_frame(sealed(b"", length=length))


def test_an_envelope_over_the_limit_is_refused_before_it_is_parsed():
    with pytest.raises(InvalidArgumentError, match="too long"):
        decode_frame(sealed(bytes(ENVELOPE_BYTES_MAX + 1)))


def test_sender_and_target_come_from_the_envelope():
    ((_, message),) = decode_frame(joined([(1, Quiesce(SENDER, TARGET, 2, 3))]))
    assert (message.sender, message.to) == (SENDER, TARGET)


@pytest.mark.parametrize("count", [1, 2], ids=["short form", "long form"])
def test_an_entry_that_is_no_configuration_is_refused(count):
    """Once appended, it would cut off its group."""
    entries = [Entry(index, 1, CONFIG, b"no members") for index in range(1, count + 1)]
    with pytest.raises(InvalidArgumentError):
        decode_frame(joined([(1, Append(1, 2, 1, 0, 0, 0, entries))]))
