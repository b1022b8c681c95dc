"""Messages of one key go one at a time and in order; other keys do not wait."""

import pytest

from flotilla.partition.commands.partition_commands import CancelRecords
from flotilla.partition.explain import delivery_states as states
from flotilla.partition.explain.waiting import blocked_keys
from flotilla.partition.leader import key_order
from flotilla.partition.leader.group_delivery import LeasedMessages
from flotilla.partition.leader.key_order import KeyOrder
from flotilla.types.errors import CorruptionError, NotLoadedError
from flotilla.types.limits import BATCH_RECORD_COUNT_MAX
from flotilla.types.operations.queue import ACK, FAIL, RELEASE, LeaseRange
from tests.unit.partition.leading import GROUP, Leading, offsets


def with_keys(*keys: bytes | None) -> Leading:
    here = Leading()
    for start in range(0, len(keys), BATCH_RECORD_COUNT_MAX):
        here.append(min(BATCH_RECORD_COUNT_MAX, len(keys) - start))
    here.keys = {offset: key for offset, key in enumerate(keys) if key is not None}
    return here


def test_a_key_is_out_once_and_others_are_not_held_up() -> None:
    here = with_keys(b"a", b"a", b"b", None, None, b"b")
    assert offsets(here.poll_ordered()) == [0, 2, 3, 4]
    assert here.poll_ordered() == []
    assert [here.state(offset) for offset in (1, 5)] == [states.BLOCKED] * 2


def test_the_keys_that_block_most_are_told_with_what_they_wait_for() -> None:
    here = with_keys(b"a", b"a", b"b", b"b", b"b", b"c")
    leased = here.poll_ordered()
    here.settle([each for each in leased if each.first == 2], FAIL, reason="no stock")
    here.flush()
    found = blocked_keys(here.leader, GROUP, 1, here.now_ms)
    assert (found.key_count, found.message_count) == (2, 3)
    (key,) = found.keys
    assert (key.key, key.offset, key.state, key.blocked) == (b"b", 2, states.RETRYING, 2)
    assert (key.attempts, key.reason) == (1, "no stock")
    other = blocked_keys(here.leader, GROUP, 9, here.now_ms).keys[1]
    assert (other.key, other.offset, other.state, other.holder, other.blocked) == (b"a", 0, states.LEASED, "m", 1)
    here.settle([each for each in leased if each.first == 0])
    here.flush()
    assert [each.key for each in blocked_keys(here.leader, GROUP, 9, here.now_ms).keys] == [b"b"]


def test_the_next_of_a_key_goes_when_the_ack_has_committed() -> None:
    here = with_keys(b"a", b"a", b"a")
    first = here.poll_ordered()
    here.settle(first)
    assert here.poll_ordered() == []
    here.flush()
    assert here.state(1) == states.READY
    assert offsets(here.poll_ordered()) == [1]
    assert here.state(2) == states.BLOCKED


def test_a_failing_message_holds_its_key_until_it_is_done() -> None:
    here = with_keys(b"a", b"a", b"b")
    (lease, _) = here.poll_ordered()
    here.settle([lease], FAIL)
    here.flush()
    here.append()
    here.keys[3] = b"a"
    assert here.poll_ordered() == []
    here.pass_ms(1_000)
    assert offsets(here.poll_ordered()) == [0]


def test_a_message_that_was_given_back_is_the_next_of_its_key() -> None:
    here = with_keys(b"a", b"a")
    here.settle(here.poll_ordered(), RELEASE)
    assert offsets(here.poll_ordered()) == [0]


def test_a_dead_message_frees_its_key() -> None:
    here = with_keys(b"a", b"a")
    here.set(max_deliveries=1)
    here.settle(here.poll_ordered(), FAIL)
    here.flush()
    assert offsets(here.poll_ordered()) == [1]


@pytest.mark.parametrize(("cancelled", "follows"), [((0,), 1), ((0, 1), 2), ((1,), None)])
def test_a_cancelled_message_frees_its_key(cancelled: tuple[int, ...], follows: int | None) -> None:
    here = with_keys(b"a", b"a", b"a")
    here.settle(here.poll_ordered(), FAIL)
    here.flush()
    here.log.command(CancelRecords(cancelled, here.now_ms))
    assert here.leader.has_ready(GROUP, here.now_ms) == (follows is not None)
    assert offsets(here.poll_ordered()) == ([] if follows is None else [follows])


def test_the_order_holds_over_a_failover() -> None:
    here = with_keys(b"a", b"a", b"b", b"b")
    (waiting, held) = here.poll_ordered()
    here.settle([waiting], FAIL, delay_ms=500)
    here.flush()
    here.change_leader()
    here.extend([held], 10_000)
    assert here.poll_ordered() == []
    here.pass_ms(500)
    assert offsets(here.poll_ordered()) == [0]


def test_leases_that_are_adopted_after_an_ordered_poll_hold_their_keys_too() -> None:
    here = with_keys(b"a", b"b", b"b")
    (lease,) = here.poll_ordered()
    here.change_leader()
    assert offsets(here.poll_ordered(1)) == [0]
    here.extend([lease._replace(first=1)], 10_000)
    assert here.poll_ordered() == []


@pytest.mark.parametrize("kind", [ACK, FAIL])
def test_the_end_of_an_earlier_lease_holds_its_key_until_it_has_committed(kind: int) -> None:
    """The log may refuse it, and then the message is the next of its key."""
    here = with_keys(b"a", b"b", b"b")
    (lease,) = here.poll_ordered()
    here.change_leader()
    assert offsets(here.poll_ordered(1)) == [0]
    assert here.settle([LeaseRange(lease.lease_id, 1, 2)], kind, delay_ms=0) == []
    assert here.poll_ordered() == []
    (command,) = here.take()
    here.leader.failed(command)
    assert offsets(here.poll_ordered()) == [1]


def test_a_late_ack_of_a_blocked_message_takes_it_out() -> None:
    here = with_keys(b"a", b"a", b"a")
    leases = here.poll(3, visibility_ms=100)
    here.settle([LeaseRange(leases[0].lease_id, 0, 1)], RELEASE)
    here.pass_ms(100)
    here.flush()
    here.pass_ms(1_000)
    assert offsets(here.poll_ordered()) == [0]
    assert here.state(1) == states.BLOCKED
    assert here.settle([LeaseRange(leases[0].lease_id, 1, 2)]) == []
    here.flush()
    assert here.settle([LeaseRange(leases[0].lease_id, 1, 2)]) != []
    here.leader.settle(GROUP, 1, [LeaseRange(leases[0].lease_id + 1, 0, 1)], "", -1, here.now_ms)
    here.flush()
    assert offsets(here.poll_ordered()) == [2]


@pytest.mark.parametrize(("broken", "readable"), [(0, None), (2, 0)])
def test_messages_that_cannot_be_read_now_stay_ready(broken: int, readable: int | None) -> None:
    """Nor what was chosen with it: a leader has no other list of what is ready."""
    here = Leading()
    for priority in (7, 0):
        here.append(2, priority=priority)
    here.keys = {0: b"a", 1: b"a", 2: b"b", 3: b"b"}

    def keys_of(first: int, end: int) -> list[bytes | None]:
        if first <= broken < end:
            raise CorruptionError("the log is damaged there")
        return here.keys_of(first, end)

    if readable is None:
        with pytest.raises(CorruptionError):
            here.leader.poll(GROUP, "m", 10, 0, here.now_ms, keys_of)
        assert offsets(here.poll_ordered()) == [0, 2]
    else:
        assert offsets(here.leader.poll(GROUP, "m", 10, 0, here.now_ms, keys_of)) == [readable]
        assert offsets(here.poll_ordered()) == [broken]


def test_keys_that_are_read_in_parts_are_read_once() -> None:
    """Neither of new messages nor of those that were taken in another way."""
    here = with_keys(b"a", b"b", b"c", b"d")
    read: list[int] = []
    refused: list[int] = []

    def keys_of(first: int, end: int) -> list[bytes | None]:
        if first % 2 == 0 and first and first not in refused:
            refused.append(first)
            raise NotLoadedError()
        end = min(end, first - first % 2 + 2)
        read.extend(range(first, end))
        return here.keys_of(first, end)

    def poll(count: int) -> list[int]:
        return offsets(here.leader.poll(GROUP, "m", count, 0, here.now_ms, keys_of))

    assert offsets(here.poll(4, visibility_ms=100)) == [0, 1, 2, 3]
    here.append(2)
    here.keys |= {4: b"a", 5: b"e"}
    with pytest.raises(NotLoadedError):
        poll(9)
    assert read == [0, 1]
    with pytest.raises(NotLoadedError):
        poll(9)
    assert read == [0, 1, 2, 3]
    assert poll(9) == [5]
    assert read == [0, 1, 2, 3, 4, 5]


def test_a_stuck_key_does_not_hide_messages_far_after_it() -> None:
    here = with_keys(*[b"stuck"] * 5_000, b"free")
    assert offsets(here.poll_ordered(1)) == [0]
    for _ in range(10):
        found = offsets(here.poll_ordered(1))
        if found:
            break
    assert found == [5_000]


def test_when_too_many_are_blocked_other_keys_still_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_order, "BLOCKED_COUNT_MAX", 2)
    here = with_keys(b"free", b"free", *[b"stuck"] * 5, None)
    first = here.poll_ordered()
    assert offsets(first) == [0, 2, 7]
    assert [here.state(offset) for offset in range(3, 7)] == [states.BLOCKED] + [states.READY] * 3
    assert here.poll_ordered() == []
    here.settle([first[0]])
    here.flush()
    assert offsets(here.poll_ordered()) == [1]
    here.settle([first[1]])
    here.flush()
    assert offsets(here.poll_ordered()) == [3]


def test_keys_are_passed_on_in_the_order_of_offsets() -> None:
    order = KeyOrder()
    assert [order.may_go(offset, b"k") for offset in (5, 7, 5)] == [True, False, True]
    for offset in (9, 7, 8):
        order.block(offset, b"k")
    assert order.end(0, 100, lambda offset: offset != 7) == [8]
    assert order.end(8, 9, lambda _: True) == [9]
    assert order.end(9, 10, lambda _: True) == []
    assert (len(order), order.blocked_count) == (0, 0)


def _drain(here: Leading, polls: int) -> list[int]:
    """What members get who ack everything at once."""
    got: list[int] = []
    for _ in range(polls):
        found = here.poll_ordered()
        got += offsets(found)
        here.settle(found)
        here.flush()
    return got


@pytest.mark.parametrize(("bound", "stuck"), [(200, 3_000), (key_order.BLOCKED_COUNT_MAX, 300_000)])
def test_a_stuck_key_starves_no_other_at_any_backlog(monkeypatch: pytest.MonkeyPatch, bound: int, stuck: int) -> None:
    monkeypatch.setattr(key_order, "BLOCKED_COUNT_MAX", bound)
    here = with_keys(*[b"stuck"] * stuck, *[b"free"] * 20, *[b"other"] * 20)
    held = here.poll_ordered(1)
    assert offsets(held) == [0]
    got = _drain(here, stuck // 1_000 + 45)
    assert set(got) == set(range(stuck, stuck + 40))
    for key in (b"free", b"other"):
        of_key = [offset for offset in got if here.keys[offset] == key]
        assert of_key == sorted(of_key)
    here.settle(held)
    here.flush()
    assert _drain(here, 5) == [1, 2, 3, 4, 5]


def test_beyond_the_bound_freed_keys_go_on_behind_a_stuck_one_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of three keys in turns, and a bound so low that all are passed over again and again."""
    monkeypatch.setattr(key_order, "BLOCKED_COUNT_MAX", 4)
    monkeypatch.setattr(key_order, "_LOOK_AHEAD", 8)
    names = [(b"stuck", b"a", b"b")[(at * 7) % 3] for at in range(90)]
    here = with_keys(b"stuck", *names)
    assert offsets(here.poll_ordered(1)) == [0]
    got = _drain(here, 600)
    assert set(got) == {at for at, key in here.keys.items() if key != b"stuck"}
    for key in (b"a", b"b"):
        of_key = [offset for offset in got if here.keys[offset] == key]
        assert of_key == sorted(of_key)


def test_beyond_the_bound_a_failed_message_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_order, "BLOCKED_COUNT_MAX", 2)
    monkeypatch.setattr(key_order, "_LOOK_AHEAD", 4)
    here = with_keys(*[b"stuck"] * 40, b"free", b"free")
    assert offsets(here.poll_ordered(1)) == [0]
    found: list[LeasedMessages] = []
    while not found:
        found = here.poll_ordered()
    assert offsets(found) == [40]
    here.settle(found, FAIL, delay_ms=50)
    here.flush()
    here.pass_ms(50)
    assert _drain(here, 30) == [40, 41]
