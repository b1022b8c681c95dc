"""One partition: what is stored and read, and that every request is answered once on every path."""

import pytest

from flotilla.codec.batch.header import check, parse_header
from flotilla.codec.batch.records import encode_batch
from flotilla.partition.commands.partition_commands import TrimTo, encode_command
from flotilla.partition.state.snapshot import FIRST_LAYOUT
from flotilla.raft.roles import LEADER
from flotilla.storage.group_log import SegmentedLog
from flotilla.types.dead_letters import LETTER_PRODUCER_BIT
from flotilla.types.errors import CorruptionError, DiskFullError
from flotilla.types.operations import (
    EARLIEST,
    LATEST,
    AlterTopic,
    CommitOffset,
    DeleteTopic,
    Fetch,
    Fetched,
    ListOffsets,
    OffsetCommitted,
    OffsetFound,
    Produce,
    Produced,
    ReadOffset,
    Request,
)
from flotilla.types.operations.queue import DeleteGroup
from flotilla.types.records import Record
from flotilla.types.version import GROUP_ENDS_STORED
from tests.unit.broker.fleet import Answer, Fleet, Node, batch, client_address, single_node, three

TOPIC = "orders"


@pytest.fixture
def node() -> Node:
    node = single_node()
    node.fleet.create(TOPIC)
    return node


def produce(data: bytes | None = None, partition: int = 0) -> Produce:
    return Produce(TOPIC, partition, data if data is not None else batch())


def fetch(offset: int = 0, max_bytes: int = 1 << 20, wait_ms: int = 0) -> Fetch:
    return Fetch(TOPIC, 0, offset, max_bytes, wait_ms)


def trim(node: Node, offset: int) -> None:
    group = node.partition(TOPIC).group
    node.propose(group, encode_command(TrimTo(offset, node.now_ms())), lambda _: None)
    node.fleet.settle()


# Storing and reading.


def test_batches_come_back_as_they_were_sent_with_their_offset(node: Node) -> None:
    sent = [batch(b"a", b"b"), batch(b"c")]
    assert [node.call(produce(data)).result for data in sent] == [Produced(0), Produced(2)]
    fetched = node.call(fetch()).result
    assert isinstance(fetched, Fetched)
    assert (fetched.log_start, fetched.next_offset) == (0, 3)
    assert [bytes(data[12:]) for data in fetched.batches] == [data[12:] for data in sent]
    assert [parse_header(data).base_offset for data in fetched.batches] == [0, 2]


def test_a_writable_buffer_is_stored_without_a_copy(node: Node) -> None:
    buffer = memoryview(bytearray(batch()))
    assert node.call(Produce(TOPIC, 0, batch())).result == Produced(0)
    assert node.call(Produce(TOPIC, 0, buffer)).result == Produced(1)
    assert parse_header(buffer).base_offset == 1


def test_a_fetch_is_bounded_by_bytes_but_gives_one_batch(node: Node) -> None:
    for value in (b"a" * 100, b"b" * 100, b"c" * 100):
        node.call(produce(batch(value)))
    counts = []
    for max_bytes in (0, 1, 1 << 20):
        fetched = node.call(fetch(1, max_bytes)).result
        assert isinstance(fetched, Fetched)
        counts.append(len(fetched.batches))
    assert counts == [1, 1, 2]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (-1, "OFFSET_OUT_OF_RANGE"),
        (1, "OFFSET_OUT_OF_RANGE"),
        (2, "Fetched"),
        (4, "Fetched"),
        (5, "OFFSET_OUT_OF_RANGE"),
    ],
)
@pytest.mark.parametrize("wait_ms", [0, 1000])
def test_fetches_outside_of_the_log(node: Node, offset: int, expected: str, wait_ms: int) -> None:
    for _ in range(4):
        node.call(produce())
    trim(node, 2)
    answer = node.call(fetch(offset, wait_ms=wait_ms))
    node.fleet.advance(1000)
    assert answer.code == expected


@pytest.mark.parametrize(
    ("position", "expected"),
    [(EARLIEST, 2), (LATEST, 8), (0, 2), (100, 2), (101, 2), (103, 3), (104, 4), (203, 7), (204, -1)],
)
def test_offsets_by_position_and_time(node: Node, position: int, expected: int) -> None:
    for time_ms in (100, 200):
        node.call(produce(batch(b"a", b"b", b"c", b"d", time_ms=time_ms)))
    trim(node, 2)
    # The records' times are 100 to 103 and 200 to 203; the first two are trimmed.
    assert node.call(ListOffsets(TOPIC, 0, position)).result == OffsetFound(expected)


def test_a_batch_of_one_time_begins_with_its_first_record(node: Node) -> None:
    records = [Record(b"x", timestamp_ms=50)] * 3
    node.call(produce(encode_batch(records)))
    assert node.call(ListOffsets(TOPIC, 0, 50)).result == OffsetFound(0)
    assert node.call(ListOffsets(TOPIC, 0, 51)).result == OffsetFound(-1)


def test_uncommitted_records_cannot_be_found(node: Node) -> None:
    node.is_disk_stuck = True
    in_flight = node.call(produce(batch(time_ms=70)))
    assert node.call(ListOffsets(TOPIC, 0, 70)).result == OffsetFound(-1)
    assert node.call(ListOffsets(TOPIC, 0, LATEST)).result == OffsetFound(0)
    fetched = node.call(fetch()).result
    assert isinstance(fetched, Fetched)
    assert fetched.batches == []
    assert in_flight.is_waiting


def test_a_fetch_stops_where_the_committed_log_ends(node: Node) -> None:
    node.call(produce(batch(b"committed")))
    node.is_disk_stuck = True
    node.call(produce(batch(b"not yet")))
    fetched = node.call(fetch()).result
    assert isinstance(fetched, Fetched)
    assert (len(fetched.batches), fetched.next_offset) == (1, 1)


def test_a_group_moves_back_by_reset_only(node: Node) -> None:
    for _ in range(5):
        node.call(produce())
    assert node.call(ReadOffset("g", TOPIC, 0)).code == "NOT_FOUND"
    for offset, reset, stands in [(3, False, 3), (1, False, 3), (1, True, 1), (5, False, 5)]:
        for request in (CommitOffset("g", TOPIC, 0, offset, reset), ReadOffset("g", TOPIC, 0)):
            assert position(node.call(request).result).offset == stands


def position(result: object) -> OffsetCommitted:
    assert isinstance(result, OffsetCommitted)
    return result


def test_a_reader_commits_nothing_for_a_group_that_was_deleted_since(node: Node) -> None:
    for _ in range(5):
        node.call(produce())
    assert node.call(ReadOffset("g", TOPIC, 0)).code == "NOT_FOUND"
    begun = position(node.call(ReadOffset("g", TOPIC, 0, is_optional=True)).result)
    assert (begun.offset, begun.as_of > 0) == (-1, True)
    first = position(node.call(CommitOffset("g", TOPIC, 0, 2, as_of=begun.as_of)).result)
    assert first.as_of >= begun.as_of
    # Another reader of the same group has not heard of the commit, and goes on.
    assert position(node.call(CommitOffset("g", TOPIC, 0, 3, as_of=begun.as_of)).result).offset == 3
    assert node.call(DeleteGroup(TOPIC, 0, "g")).code == "Done"
    for known in (begun.as_of, first.as_of):
        refused = node.call(CommitOffset("g", TOPIC, 0, 5, as_of=known))
        assert refused.code == "STALE_GENERATION"
        assert "'g' was deleted" in str(refused.result)
    anew = position(node.call(ReadOffset("g", TOPIC, 0, is_optional=True)).result)
    assert position(node.call(CommitOffset("g", TOPIC, 0, 1, as_of=anew.as_of)).result).offset == 1
    assert node.call(CommitOffset("g", TOPIC, 0, 5, as_of=first.as_of)).code == "STALE_GENERATION"
    assert position(node.call(ReadOffset("g", TOPIC, 0)).result).offset == 1


def test_a_partition_that_has_no_such_group_remembers_its_end_as_well(node: Node) -> None:
    """Also one that has nothing at all."""
    begun = position(node.call(ReadOffset("g", TOPIC, 0, is_optional=True)).result)
    assert node.call(DeleteGroup(TOPIC, 0, "g")).code == "NOT_FOUND"
    assert node.call(CommitOffset("g", TOPIC, 0, 0, as_of=begun.as_of)).code == "STALE_GENERATION"


def test_clusters_of_earlier_versions_delete_groups_and_remember_nothing(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node.catalog.machine.state, "cluster_version", GROUP_ENDS_STORED - 1)
    node.call(produce())
    begun = position(node.call(CommitOffset("g", TOPIC, 0, 1)).result)
    assert node.call(DeleteGroup(TOPIC, 0, "g")).code == "Done"
    assert node.call(DeleteGroup(TOPIC, 0, "g")).code == "NOT_FOUND"
    assert position(node.call(CommitOffset("g", TOPIC, 0, 1, as_of=begun.as_of)).result).offset == 1
    assert node.partition(TOPIC).machine.snapshot()[0] == FIRST_LAYOUT


# Refusals change nothing.

LYING = bytearray(batch(b"a", b"b"))
LYING[24] = 9


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (Produce("nowhere", 0, batch()), "NOT_FOUND"),
        (Produce("../x", 0, batch()), "NOT_FOUND"),
        (Produce("", 0, batch()), "NOT_FOUND"),
        (Produce(TOPIC, 1, batch()), "NOT_FOUND"),
        (Produce(TOPIC, -1, batch()), "NOT_FOUND"),
        (Produce(TOPIC, 2**32 - 1, batch()), "NOT_FOUND"),
        (Produce(TOPIC, 0, b""), "INVALID_ARGUMENT"),
        (Produce(TOPIC, 0, b"garbage" * 20), "INVALID_ARGUMENT"),
        (Produce(TOPIC, 0, bytes(LYING)), "INVALID_ARGUMENT"),
        (Produce(TOPIC, 0, batch(b"x" * (2**20 + 1))), "INVALID_ARGUMENT"),
        (Produce(TOPIC, 0, batch(producer=7, sequence=3)), "OUT_OF_WINDOW"),
        (ListOffsets(TOPIC, 0, -3), "INVALID_ARGUMENT"),
        (CommitOffset("../x", TOPIC, 0, 0), "INVALID_ARGUMENT"),
        (CommitOffset("", TOPIC, 0, 0), "INVALID_ARGUMENT"),
        (CommitOffset("g", TOPIC, 0, 1), "OFFSET_OUT_OF_RANGE"),
        (CommitOffset("g", TOPIC, 0, -1), "OFFSET_OUT_OF_RANGE"),
        (CommitOffset("g", TOPIC, 0, 2**64), "OFFSET_OUT_OF_RANGE"),
        (ReadOffset("", TOPIC, 0), "INVALID_ARGUMENT"),
        (ReadOffset("g", TOPIC, 5), "NOT_FOUND"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_proposed(node: Node, request_: Request, code: str) -> None:
    logged = node.partition(TOPIC).replica.raft.log.last_index
    assert node.ask(request_).code == code
    assert node.partition(TOPIC).replica.raft.log.last_index == logged


def test_a_refused_proposal_gives_its_offset_and_sequence_back(node: Node) -> None:
    node.driver.storage_error = DiskFullError("full")
    for data in (batch(b"a", b"b"), batch(b"a", b"b", producer=7)):
        assert node.call(produce(data)).code == "DISK_FULL"
    node.driver.storage_error = None
    assert node.call(produce(batch(b"a", b"b", producer=7))).result == Produced(0)
    assert node.call(produce()).result == Produced(2)


@pytest.mark.parametrize(
    "request_",
    [
        produce(),
        Fetch(TOPIC, 0, 0, max_bytes=1_000),
        ListOffsets(TOPIC, 0, EARLIEST),
        CommitOffset("g", TOPIC, 0, 0),
        ReadOffset("g", TOPIC, 0),
    ],
)
def test_a_leader_that_may_have_been_replaced_in_its_sleep_serves_nothing(node: Node, request_: Request) -> None:
    node.is_awake = False
    assert node.call(request_).code == "UNAVAILABLE"
    # What must be in the log goes on: it needs a quorum anyway.
    node.partition(TOPIC).check(node.now_ms())
    node.is_awake = True
    assert node.call(request_).code != "UNAVAILABLE"


def test_a_leader_that_hands_over_serves_nothing(node: Node) -> None:
    node.partition(TOPIC).replica.raft.transferee = 2
    for request in (produce(), Fetch(TOPIC, 0, 0, max_bytes=1_000)):
        assert node.call(request).code == "UNAVAILABLE"


# Repetition.


def test_a_stored_batch_is_answered_with_its_first_offset(node: Node) -> None:
    data = batch(b"a", b"b", producer=7)
    assert node.call(produce(data)).result == Produced(0)
    assert node.call(produce(data)).result == Produced(0, duplicate=True)
    assert node.call(produce(batch(producer=7, sequence=5))).code == "SEQUENCE_GAP"
    assert node.call(produce(batch(producer=7, epoch=1))).result == Produced(2)
    assert node.call(produce(batch(producer=7, sequence=2))).code == "PRODUCER_FENCED"


def test_a_producer_id_is_the_users_own(node: Node) -> None:
    def owned(data: bytes, owner: str) -> Produce:
        return Produce(TOPIC, 0, data, owner=owner)

    data = batch(b"a", b"b", producer=7)
    assert node.call(owned(data, "anna")).result == Produced(0)
    # Neither taken for a repetition, nor does a newer epoch fence the other's.
    assert node.call(owned(data, "ben")).result == Produced(2)
    assert node.call(owned(batch(producer=7, epoch=9), "ben")).result == Produced(4)
    assert node.call(produce(data)).result == Produced(5)
    assert node.call(owned(data, "anna")).result == Produced(0, duplicate=True)
    assert node.call(owned(batch(producer=7, sequence=2), "anna")).result == Produced(7)
    # What readers get has a right checksum.
    for stored in node.call(fetch()).result.batches:
        check(bytes(stored))


def test_a_user_never_has_the_producer_id_of_a_dead_letter(node: Node) -> None:
    large = encode_batch([Record(b"x" * 2_000_000)], producer_id=LETTER_PRODUCER_BIT | 1)
    assert node.call(Produce(TOPIC, 0, large, owner="anna")).code == "INVALID_ARGUMENT"
    assert node.call(produce(large)).result == Produced(0)


def test_repetitions_join_the_copy_in_flight(node: Node) -> None:
    node.is_disk_stuck = True
    node.ask(produce(batch(producer=9)))
    first = node.ask(produce(batch(b"a", b"b", b"c", producer=7)))
    again = node.ask(produce(batch(b"a", b"b", b"c", producer=7)))
    part = node.ask(produce(batch(b"b", b"c", producer=7, sequence=1)))
    node.fleet.settle()
    assert (first.is_waiting, again.is_waiting, part.is_waiting) == (True, True, True)
    node.is_disk_stuck = False
    node.fleet.settle()
    assert first.result == Produced(1)
    assert again.result == Produced(1, duplicate=True)
    assert part.result == Produced(2, duplicate=True)
    node.fleet.check_answers()


def test_repetitions_fail_with_the_first_copy_and_may_be_sent_again(node: Node) -> None:
    node.is_disk_stuck = True
    answers = [node.ask(produce(batch(b"a", b"b", producer=7))) for _ in range(3)]
    node.partition(TOPIC).replica.raft.step_down()
    node.fleet.settle()
    assert [answer.code for answer in answers] == ["OUTCOME_UNKNOWN"] * 3
    node.is_disk_stuck = False
    node.fleet.leader(TOPIC)
    # What was in flight is in the log of the only replica: the next leader knows it.
    assert node.call(produce(batch(b"a", b"b", producer=7))).result == Produced(0, duplicate=True)
    assert node.call(produce()).result == Produced(2)


def test_nothing_is_kept_of_answered_batches(node: Node) -> None:
    for sequence in range(20):
        node.call(produce(batch(producer=7, sequence=sequence)))
        node.call(CommitOffset("g", TOPIC, 0, sequence))
        node.call(ReadOffset("g", TOPIC, 0))
    assert not node.pending._pending


# Long polls.


def test_a_long_poll_is_woken_once_by_all_that_is_applied_together(node: Node) -> None:
    waiting = node.call(fetch(0, wait_ms=5000))
    assert waiting.cancel is not None
    for _ in range(3):
        node.ask(produce())
    node.fleet.settle()
    fetched = waiting.result
    assert isinstance(fetched, Fetched)
    assert (len(fetched.batches), fetched.next_offset) == (3, 3)
    node.fleet.advance(10_000)
    waiting.cancel()
    node.fleet.check_answers()


def test_polls_leave_no_timers_behind(node: Node) -> None:
    before = node.fleet.clock.armed_count
    woken, cancelled = node.call(fetch(0, wait_ms=5000)), node.call(fetch(0, wait_ms=5000))
    assert node.fleet.clock.armed_count == before + 2
    assert cancelled.cancel is not None
    cancelled.cancel()
    node.call(produce())
    assert woken.code == "Fetched"
    assert node.fleet.clock.armed_count == before


def test_an_answer_may_give_up_another_poll(node: Node) -> None:
    polls: list[Answer] = []

    def give_up_the_rest(_: object) -> None:
        for poll in polls:
            assert poll.cancel is not None
            poll.cancel()

    node.broker.handle(fetch(0, wait_ms=5000), give_up_the_rest)
    polls += [node.ask(fetch(0, wait_ms=5000)) for _ in range(2)]
    node.call(produce())
    assert [poll.is_waiting for poll in polls] == [True, True]


def test_a_long_poll_ends_with_its_time(node: Node) -> None:
    short, long = node.call(fetch(0, wait_ms=1000)), node.call(fetch(0, wait_ms=10**9))
    node.fleet.advance(900)
    assert short.is_waiting
    node.fleet.advance(100)
    assert short.result == Fetched([], 0, 0)
    node.fleet.advance(298_000)
    assert long.is_waiting
    node.fleet.advance(2_000)
    assert long.result == Fetched([], 0, 0)


def test_a_commit_does_not_end_a_long_poll(node: Node) -> None:
    waiting = node.call(fetch(0, wait_ms=5000))
    node.call(CommitOffset("g", TOPIC, 0, 0))
    assert waiting.is_waiting


def test_a_long_poll_that_was_given_up_is_never_answered(node: Node) -> None:
    waiting = node.call(fetch(0, wait_ms=5000))
    assert waiting.cancel is not None
    waiting.cancel()
    waiting.cancel()
    node.call(produce())
    node.fleet.advance(10_000)
    assert waiting.is_waiting
    assert not node.partition(TOPIC)._fetches


def test_a_new_poll_from_inside_of_an_answer_is_not_answered_at_once(node: Node) -> None:
    answers: list[object] = []

    def again(result: object) -> None:
        answers.append(result)
        node.broker.handle(fetch(len(answers), wait_ms=5000), again)

    node.broker.handle(fetch(0, wait_ms=5000), again)
    for count in (1, 2, 3):
        node.call(produce())
        assert len(answers) == count


def damaged(*_: object) -> list[object]:
    raise CorruptionError("checksum does not hold")


@pytest.mark.parametrize("wait_ms", [0, 1000])
def test_damage_in_the_log_is_an_answer(node: Node, monkeypatch: pytest.MonkeyPatch, wait_ms: int) -> None:
    waiting = node.call(fetch(0, wait_ms=1000))
    monkeypatch.setattr(SegmentedLog, "read_from_offset", damaged)
    node.call(produce())
    assert waiting.code == "CORRUPTION"
    assert node.call(fetch(0, wait_ms=wait_ms)).code == "CORRUPTION"
    monkeypatch.setattr(SegmentedLog, "find_time", damaged)
    assert node.call(ListOffsets(TOPIC, 0, 5)).code == "CORRUPTION"


# Leadership.


def everything(node: Node) -> list[Answer]:
    """One request of every kind that waits."""
    return [
        node.ask(fetch(0, wait_ms=100_000)),
        node.ask(produce()),
        node.ask(produce(batch(producer=7))),
        node.ask(produce(batch(producer=7))),
        node.ask(CommitOffset("g", TOPIC, 0, 0)),
        node.ask(ReadOffset("g", TOPIC, 0)),
        node.ask(ListOffsets(TOPIC, 0, LATEST)),
        node.ask(ListOffsets(TOPIC, 0, 0)),
    ]


def test_every_waiter_is_answered_when_leadership_is_lost() -> None:
    fleet = three()
    old = fleet.create(TOPIC)
    fleet.isolate(old.node)
    answers = everything(old)
    new = next(box for box in fleet.nodes.values() if box is not old)
    fleet.wait(lambda: new.partition(TOPIC).replica.raft.leader not in (0, old.node))
    fleet.advance(10_000)
    assert [answer.code for answer in answers][1:5] == ["OUTCOME_UNKNOWN"] * 4
    assert {answer.code for answer in (answers[0], *answers[5:])} <= {"NOT_LEADER", "UNAVAILABLE"}
    fleet.heal(old.node)
    leader = fleet.leader(TOPIC)
    fleet.advance(2000)
    refused = old.call(produce()).result
    assert getattr(refused, "address", None) == client_address(leader.node)
    assert leader.call(produce()).result == Produced(0)
    fleet.check_answers()


def test_a_long_poll_learns_soon_that_another_node_leads() -> None:
    fleet = three()
    old = fleet.create(TOPIC)
    waiting = old.call(fetch(0, wait_ms=100_000))
    new = next(node for node in fleet.nodes if node != old.node)
    old.transfer(old.partition(TOPIC).group, new)
    fleet.advance(1000)
    assert getattr(waiting.result, "address", None) == client_address(new)


def test_offsets_stay_dense_over_terms() -> None:
    fleet = three()
    stored = 0
    for _ in range(3):
        leader = fleet.create(TOPIC) if stored == 0 else fleet.leader(TOPIC)
        for _ in range(3):
            assert leader.call(produce()).result == Produced(stored)
            stored += 1
        group = leader.partition(TOPIC).group
        leader.transfer(group, next(node for node in fleet.nodes if node != leader.node))
        fleet.advance(1000)
    assert fleet.leader(TOPIC).call(ListOffsets(TOPIC, 0, LATEST)).result == OffsetFound(stored)


def test_every_request_is_answered_when_the_topic_is_deleted() -> None:
    """Two of three replicas have stuck disks; the metadata has its quorum without them."""
    fleet = Fleet(5).form()
    leader = fleet.create(TOPIC)
    replicas = leader.catalog.topic(TOPIC).partitions[0].replicas
    if fleet.controller().node in replicas[1:]:
        fleet.controller().transfer(1, leader.node)
        fleet.advance(1000)
    for node in replicas[1:]:
        fleet.nodes[node].is_disk_stuck = True
    answers = everything(leader)
    fleet.settle()
    assert all(answer.is_waiting for answer in answers[:5])
    assert fleet.controller().call(DeleteTopic(TOPIC)).code == "TopicReply"
    fleet.advance(1000)
    assert [answer.code for answer in answers[:5]] == ["NOT_FOUND"] * 5
    fleet.advance(10_000)
    fleet.check_answers()
    assert leader.call(fetch(0, wait_ms=1000)).code == "NOT_FOUND"


# Settings at run time.


def test_a_smaller_payload_limit_holds_at_once(node: Node) -> None:
    large = produce(batch(b"x" * 2000))
    assert node.call(large).code == "Produced"
    assert node.call(AlterTopic(TOPIC, settings={"payload_bytes_max": "1KiB"})).code == "TopicReply"
    assert node.call(large).code == "INVALID_ARGUMENT"
    assert node.call(AlterTopic(TOPIC, settings={"payload_bytes_max": ""})).code == "TopicReply"
    assert node.call(large).code == "Produced"


def test_the_window_against_repetition_follows_the_settings_at_all_replicas() -> None:
    fleet = three()
    leader = fleet.create(TOPIC, dedup_window_entries="2000", dedup_window_ms="1h")

    def bounds() -> list[tuple[int, int]]:
        tables = [box.partition(TOPIC).machine.producers for box in fleet.nodes.values()]
        return [(table.entries_max, table.window_ms) for table in tables]

    fleet.advance(1500)
    assert bounds() == [(2000, 3_600_000)] * 3
    fleet.controller().call(AlterTopic(TOPIC, settings={"dedup_window_entries": "3000", "dedup_window_ms": "2m"}))
    fleet.advance(1500)
    assert bounds() == [(3000, 120_000)] * 3
    logged = leader.partition(TOPIC).replica.raft.log.last_index
    fleet.advance(5000)
    assert leader.partition(TOPIC).replica.raft.log.last_index == logged, "what is in force is not repeated"


def test_producers_are_forgotten_after_their_time(node: Node) -> None:
    node.call(AlterTopic(TOPIC, settings={"dedup_window_ms": "1m"}))
    node.call(produce(batch(producer=7)))
    table = node.partition(TOPIC).machine.producers
    node.fleet.advance(30_000)
    assert len(table) == 1
    node.fleet.advance(40_000)
    assert len(table) == 0
    logged = node.partition(TOPIC).replica.raft.log.last_index
    node.fleet.advance(200_000)
    assert node.partition(TOPIC).replica.raft.log.last_index == logged, "an idle partition writes nothing"


def test_a_new_leader_serves_only_after_it_applied_its_log() -> None:
    """It has won the election, but no other replica has stored the first entry of its term."""
    fleet = three()
    old = fleet.create(TOPIC)
    new, other = (box for box in fleet.nodes.values() if box is not old)
    old.transfer(old.partition(TOPIC).group, new.node)
    raft = new.partition(TOPIC).replica.raft
    while raft.role != LEADER:
        for box in fleet.nodes.values():
            fleet.turn(box)
    old.is_disk_stuck = other.is_disk_stuck = True
    for request in (fetch(), produce(), CommitOffset("g", TOPIC, 0, 0)):
        assert new.ask(request).code == "UNAVAILABLE"
    old.is_disk_stuck = other.is_disk_stuck = False
    fleet.settle()
    assert new.call(produce()).result == Produced(0)
