"""Disks without room: who leads, what is refused, and how a leader gets out of a log that nobody has room for."""

from flotilla.raft import reasons
from flotilla.raft.messages import AppendReply, TimeoutNow
from flotilla.raft.roles import LEADER
from flotilla.runtime.leadership.rooms import FULL, ROOMY, SHORT
from flotilla.types.errors import DiskFullError, FlotillaError
from tests.unit.runtime.test_driver import THREE, Bench, command, lead_with_entries, sends

REST_TICKS = 30


def leading() -> Bench:
    """Node 1 leads; node 2 has everything, node 3 nothing."""
    bench = Bench(THREE)
    lead_with_entries(bench, 3)
    bench.sent.clear()
    bench.replies.clear()
    return bench


def refused(bench: Bench, *, frees_space: bool = False) -> FlotillaError | None:
    if bench.driver.propose(1, command(9), "asked", frees_space=frees_space):
        return None
    bench.driver.pump()
    [(_, result)] = bench.replies
    bench.replies.clear()
    assert isinstance(result, FlotillaError)
    return result


def pass_time(bench: Bench, ticks: int, *rooms: tuple[int, int]) -> None:
    """Peers repeat what room they have, and confirm that node 1 leads."""
    raft = bench.driver.replicas[1].raft
    for _ in range(ticks):
        for peer, room in rooms:
            bench.driver.peer_room(peer, room)
        bench.driver.receive([(1, AppendReply(2, 1, raft.term, raft.progress[2].match, accepted=True))])
        bench.tick(1)
        bench.settle()


def test_a_leader_with_little_room_hands_over_to_a_node_with_room() -> None:
    bench = leading()
    bench.driver.note_room(is_short=True)
    assert bench.told_rooms == [SHORT]
    bench.tick(1)
    bench.settle()
    assert [message.to for message in sends(bench, TimeoutNow)] == [2]
    assert [message.reason for _, message in bench.sent if isinstance(message, TimeoutNow)] == [reasons.FULL_DISK]


def test_where_no_other_has_room_it_leads_on() -> None:
    bench = leading()
    bench.driver.note_room(is_short=True)
    pass_time(bench, 40, (2, SHORT), (3, FULL))
    assert sends(bench, TimeoutNow) == []
    assert bench.driver.replicas[1].raft.role == LEADER
    assert set(bench.told_rooms) == {SHORT}, "it repeats that, because news may be lost"
    bench.driver.note_room(is_short=False)
    assert bench.told_rooms[-1] == ROOMY


def test_news_is_outdated_after_a_while_or_with_its_link() -> None:
    bench = leading()
    bench.driver.peer_room(2, SHORT)
    bench.tick(REST_TICKS - 1)
    assert bench.driver.is_short_of_room(2)
    bench.tick(1)
    assert not bench.driver.is_short_of_room(2)
    bench.driver.peer_room(2, SHORT)
    bench.driver.peer_down(2)
    assert not bench.driver.is_short_of_room(2)
    bench.driver.peer_room(2, FULL)
    bench.driver.peer_room(2, ROOMY)
    assert not bench.driver.is_short_of_room(2)


def test_records_that_no_majority_has_room_for_are_refused_at_once() -> None:
    bench = leading()
    bench.driver.peer_room(2, SHORT)
    bench.driver.peer_room(3, FULL)
    assert refused(bench) is None, "two of three take it"
    bench.driver.peer_room(2, FULL)
    error = refused(bench)
    assert isinstance(error, DiskFullError)
    assert "nodes 2, 3" in str(error)
    assert refused(bench, frees_space=True) is None


def test_a_leader_with_records_that_no_majority_takes_steps_down() -> None:
    """What frees space waits behind them in its log. One of the others has a log without them."""
    bench = leading()
    raft = bench.driver.replicas[1].raft
    bench.driver.propose(1, command(9), "nobody has room for it")
    bench.settle()
    pass_time(bench, REST_TICKS, (2, FULL), (3, FULL))
    assert raft.role == LEADER
    pass_time(bench, 1, (2, FULL), (3, FULL))
    assert raft.role != LEADER
    assert raft.leadership.latest == reasons.FULL_DISK
    assert raft.is_reluctant, "the others stand first"


def test_a_leader_whose_log_is_committed_stays() -> None:
    bench = leading()
    pass_time(bench, 2 * REST_TICKS, (2, FULL), (3, FULL))
    assert bench.driver.replicas[1].raft.role == LEADER
