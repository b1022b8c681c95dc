"""Fetches that any replica may answer: what a follower shows, and when it says that it is behind."""

from collections.abc import Callable

import pytest

from flotilla.codec.batch.view import BatchView
from flotilla.storage.group_log import SegmentedLog
from flotilla.types.errors import CorruptionError
from flotilla.types.operations import Fetch, Fetched, Produce, Produced
from flotilla.types.operations.transactions import CommitTransaction, Stage
from tests.unit.broker.fleet import Answer, Fleet, Node, batch, three

TOPIC = "orders"


@pytest.fixture
def fleet() -> Fleet:
    fleet = three()
    fleet.create(TOPIC)
    fleet.wait(lambda: all(TOPIC in [topic.name for topic in box.catalog.topics()] for box in fleet.nodes.values()))
    return fleet


def read(offset: int = 0, wait_ms: int = 0, *, linearizable: bool = False) -> Fetch:
    return Fetch(TOPIC, 0, offset, 1 << 20, wait_ms, is_any_replica=True, is_linearizable=linearizable)


def followers(fleet: Fleet) -> list[Node]:
    leader = fleet.leader(TOPIC)
    return [box for box in fleet.nodes.values() if box is not leader]


def produce(fleet: Fleet, *values: bytes) -> None:
    assert isinstance(fleet.leader(TOPIC).call(Produce(TOPIC, 0, batch(*values))).result, Produced)


def caught_up(fleet: Fleet, at_least: int = 0) -> Node:
    """A follower that serves, and has seen so many records."""
    node = followers(fleet)[0]

    def is_serving() -> bool:
        result = node.call(read()).result
        return isinstance(result, Fetched) and result.next_offset >= at_least

    fleet.wait(is_serving)
    return node


def values_of(answer: Answer) -> list[bytes]:
    result = answer.result
    assert isinstance(result, Fetched), result
    return [value for data in result.batches for value in BatchView(data).payloads()]


def test_a_follower_serves_committed_records(fleet: Fleet) -> None:
    produce(fleet, b"a", b"b")
    follower = caught_up(fleet, 2)
    assert values_of(follower.call(read())) == [b"a", b"b"]
    assert follower.call(Fetch(TOPIC, 0, 0, 1)).code == "NOT_LEADER"
    assert values_of(fleet.leader(TOPIC).call(read())) == [b"a", b"b"]
    assert follower.call(read(-1)).code == "OFFSET_OUT_OF_RANGE"


def test_the_first_reader_of_a_follower_is_sent_elsewhere_until_it_knows_that_it_has_caught_up(fleet: Fleet) -> None:
    produce(fleet, b"a")
    follower = followers(fleet)[0]
    asked = follower.ask(read())
    assert asked.code == "REPLICA_BEHIND"
    fleet.wait(lambda: follower.call(read()).code == "Fetched")


def test_a_follower_does_not_serve_uncommitted_records(fleet: Fleet) -> None:
    produce(fleet, b"a")
    follower = caught_up(fleet, 1)
    leader = fleet.leader(TOPIC)
    for box in followers(fleet):
        # They take what the leader sends and acknowledge nothing: it stays uncommitted.
        box.is_disk_stuck = True
    leader.ask(Produce(TOPIC, 0, batch(b"b")))
    fleet.settle()
    assert values_of(follower.call(read())) == [b"a"]
    for box in followers(fleet):
        box.is_disk_stuck = False
    fleet.wait(lambda: values_of(follower.call(read())) == [b"a", b"b"])


def test_a_long_poll_at_a_follower_is_woken_by_new_records(fleet: Fleet) -> None:
    follower = caught_up(fleet)
    waiting = follower.call(read(0, wait_ms=20_000))
    assert waiting.is_waiting
    produce(fleet, b"a")
    fleet.wait(lambda: not waiting.is_waiting, 1_000)
    assert values_of(waiting) == [b"a"]


def test_a_long_poll_at_a_follower_that_hears_its_leader_ends_empty(fleet: Fleet) -> None:
    follower = caught_up(fleet)
    waiting = follower.call(read(0, wait_ms=4_000))
    fleet.advance(4_000)
    assert waiting.result == Fetched([], 0, 0)


def test_an_offset_that_has_not_arrived_is_waited_for(fleet: Fleet) -> None:
    """The reader saw more at another replica; the log of this one has no end there, it is only late."""
    produce(fleet, b"a")
    follower = caught_up(fleet, 1)
    follower.is_disk_stuck = True
    produce(fleet, b"b")
    produce(fleet, b"c")
    in_vain = follower.call(read(2, wait_ms=300))
    waiting = follower.call(read(2, wait_ms=20_000))
    assert follower.call(read(2)).code == "REPLICA_BEHIND"
    fleet.advance(400)
    assert in_vain.code == "REPLICA_BEHIND"
    assert waiting.is_waiting
    follower.is_disk_stuck = False
    fleet.wait(lambda: not waiting.is_waiting, 5_000)
    assert values_of(waiting) == [b"c"]


def test_a_follower_that_is_cut_off_says_so_and_comes_back(fleet: Fleet) -> None:
    produce(fleet, b"a")
    follower = caught_up(fleet, 1)
    waiting = follower.call(read(1, wait_ms=60_000))
    fleet.isolate(follower.node)
    fleet.wait(lambda: not waiting.is_waiting, 5_000)
    assert waiting.code == "REPLICA_BEHIND"
    produce(fleet, b"b")
    assert follower.call(read()).code == "REPLICA_BEHIND"
    fleet.heal(follower.node)
    fleet.wait(lambda: follower.call(read()).code == "Fetched")
    assert values_of(follower.call(read())) == [b"a", b"b"], "it asked how much it had missed before it served again"


def test_a_leader_that_loses_its_followers_sends_their_readers_away(fleet: Fleet) -> None:
    leader = fleet.leader(TOPIC)
    waiting = leader.call(read(0, wait_ms=60_000))
    fleet.isolate(leader.node)
    fleet.wait(lambda: not waiting.is_waiting, 10_000)
    assert waiting.code == "REPLICA_BEHIND"


def test_a_node_that_slept_asks_before_it_shows_anything(fleet: Fleet) -> None:
    follower = caught_up(fleet)
    assert follower.call(read()).code == "Fetched"
    fleet.clock.now_ms += 10_000
    assert follower.ask(read()).code == "REPLICA_BEHIND"
    fleet.wait(lambda: follower.call(read()).code == "Fetched")


def test_a_node_that_starts_shows_nothing_before_it_has_caught_up(fleet: Fleet) -> None:
    produce(fleet, b"a")
    follower = caught_up(fleet, 1)
    fleet.kill(follower.node)
    produce(fleet, b"b")
    fleet.restart(follower.node)
    group = fleet.leader(TOPIC).partition(TOPIC).group
    fleet.wait(lambda: group in follower.membership.hosts)
    shown: list[list[bytes]] = []

    def is_serving() -> bool:
        answer = follower.call(read())
        if answer.code == "Fetched":
            shown.append(values_of(answer))
        return bool(shown)

    fleet.wait(is_serving)
    assert shown == [[b"a", b"b"]]


def test_a_damaged_follower_says_that_it_is_behind(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    produce(fleet, b"a")
    follower = caught_up(fleet, 1)

    def fail(*_: object) -> list[object]:
        raise CorruptionError("a checksum")

    with monkeypatch.context() as patch:
        patch.setattr(SegmentedLog, "read_from_offset", fail)
        assert follower.call(read()).code == "REPLICA_BEHIND"
    raft = follower.partition(TOPIC).replica.raft
    raft.damaged = [(1, 2)]
    assert follower.ask(read()).code == "REPLICA_BEHIND"
    raft.damaged = []


@pytest.mark.parametrize("missing", ["everything", "the beginning"])
def test_a_log_that_lags_behind_its_state_is_no_gap(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """After a leader's snapshot the entries come again; until then the state knows offsets that the log has not."""
    for value in (b"a", b"b"):
        produce(fleet, value)
    follower = caught_up(fleet, 2)
    whole: Callable[..., list[object]] = SegmentedLog.read_from_offset

    def read_less(log: SegmentedLog, offset: int, *others: int) -> list[object]:
        return [] if missing == "everything" else whole(log, 1, *others)

    monkeypatch.setattr(SegmentedLog, "read_from_offset", read_less)
    assert follower.call(read()).code == "REPLICA_BEHIND"


def test_staged_records_are_invisible_at_followers(fleet: Fleet) -> None:
    produce(fleet, b"a")
    follower = caught_up(fleet, 1)
    leader = fleet.leader(TOPIC)
    leader.call(Stage(TOPIC, 0, "t", batch(b"b", b"c", producer=7)))
    fleet.advance(500)
    assert values_of(follower.call(read())) == [b"a"]
    waiting = follower.call(read(1, wait_ms=20_000))
    assert waiting.is_waiting
    fleet.controller().call(CommitTransaction("t", partitions=[(TOPIC, 0)], begun_ms=2))
    fleet.wait(lambda: not waiting.is_waiting, 10_000)
    assert values_of(waiting) == [b"b", b"c"]


# Linearizable fetches.


@pytest.mark.parametrize("at", ["leader", "follower"])
def test_a_linearizable_fetch_sees_everything_that_was_acknowledged(fleet: Fleet, at: str) -> None:
    produce(fleet, b"a")
    follower = caught_up(fleet, 1)
    node = fleet.leader(TOPIC) if at == "leader" else follower
    follower.is_disk_stuck = True
    produce(fleet, b"b")
    if at == "follower":
        assert values_of(node.call(read())) == [b"a"]
    answer = node.call(read(linearizable=True))
    assert answer.is_waiting == (at == "follower"), "a follower waits until it has what the leader has committed"
    follower.is_disk_stuck = False
    fleet.wait(lambda: not answer.is_waiting, 4_000)
    assert values_of(answer) == [b"a", b"b"]
    assert node.call(read(7, linearizable=True)).code == "OFFSET_OUT_OF_RANGE"


def test_a_linearizable_fetch_is_a_long_poll_like_any_other(fleet: Fleet) -> None:
    follower = caught_up(fleet)
    waiting, given_up = [follower.call(read(0, wait_ms=20_000, linearizable=True)) for _ in range(2)]
    fleet.advance(1_000)
    assert waiting.is_waiting
    assert given_up.cancel is not None
    given_up.cancel()
    produce(fleet, b"a")
    fleet.wait(lambda: not waiting.is_waiting, 1_000)
    assert values_of(waiting) == [b"a"]
    assert given_up.is_waiting


def test_a_linearizable_fetch_without_confirmation_ends(fleet: Fleet) -> None:
    follower = caught_up(fleet)
    leader = fleet.leader(TOPIC)
    fleet.cut |= {leader.node, follower.node}
    at_leader = leader.call(read(linearizable=True))
    at_follower = follower.call(read(linearizable=True))
    given_up = leader.call(read(linearizable=True))
    assert given_up.cancel is not None
    given_up.cancel()
    fleet.advance(20_000)
    assert at_leader.code in ("UNAVAILABLE", "REPLICA_BEHIND")
    assert at_follower.code == "REPLICA_BEHIND"
    assert given_up.is_waiting
    assert not leader.partition(TOPIC)._fetches


def test_a_replica_that_does_not_reach_the_read_index_gives_up(fleet: Fleet) -> None:
    follower = caught_up(fleet)
    follower.is_disk_stuck = True
    produce(fleet, b"a")
    answer = follower.call(read(linearizable=True))
    fleet.advance(6_000)
    assert answer.code == "REPLICA_BEHIND"


def test_every_request_is_answered_when_the_partition_goes(fleet: Fleet) -> None:
    follower = caught_up(fleet)
    follower.is_disk_stuck = True
    produce(fleet, b"a")
    answers = [follower.call(read(0, wait_ms=9_000)), follower.call(read(linearizable=True))]
    follower.broker.close()
    assert [answer.code for answer in answers] == ["UNAVAILABLE"] * 2
