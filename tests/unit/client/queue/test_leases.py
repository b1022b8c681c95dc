"""Leases as bits and runs, against plain sets."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from flotilla.client.queue._leases import Lease, Leases, merged
from flotilla.client.queue.message import Leased, masks_of
from flotilla.types.operations.queue import Delivery, LeaseRange

FIRST = 100


def lease(count: int, lease_id: int = 7, first: int = FIRST) -> Lease:
    return Lease("orders", "workers", Delivery(0, lease_id, first, count, 1, b""))


def offsets(runs: list[LeaseRange]) -> list[int]:
    return [offset for run in runs for offset in range(run.first, run.end)]


@given(st.sets(st.integers(0, 199)))
def test_runs_name_exactly_the_bits(positions):
    held = lease(200)
    mask = sum(1 << position for position in positions)
    runs = list(held.runs(mask))
    assert offsets(runs) == sorted(FIRST + position for position in positions)
    assert all(left.end < right.first for left, right in pairwise(runs))
    assert {run.lease_id for run in runs} <= {7}


@given(st.integers(0, 300), st.integers(0, 300))
def test_a_mask_is_the_part_of_a_run_that_belongs_here(first, end):
    held = lease(50)
    assert held.offsets(held.mask(first, end)) == [
        offset for offset in range(first, end) if FIRST <= offset < FIRST + 50
    ]


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 60), st.integers(1, 9)), max_size=20))
def test_merging_keeps_every_offset_in_as_few_runs_as_possible(drawn):
    runs = [LeaseRange(lease_id, first, first + count) for lease_id, first, count in drawn]
    found = merged(runs)
    for lease_id in (1, 2):
        given_ones = {offset for run in runs if run.lease_id == lease_id for offset in range(run.first, run.end)}
        mine = [run for run in found if run.lease_id == lease_id]
        assert offsets(mine) == sorted(given_ones)
        assert all(left.end < right.first for left, right in pairwise(mine))


STEPS = ["close", "fail", "hold", "refuse"]


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 30), st.integers(1, 10))))
def test_unsettled_messages_are_counted(steps):
    leases = Leases()
    held = lease(30)
    leases.add(held)
    open_ones = set(range(FIRST, FIRST + 30))
    failed: set[int] = set()
    lost: set[int] = set()
    for step, position, count in steps:
        named = set(range(FIRST + position, min(FIRST + position + count, FIRST + 30)))
        mask = held.mask(FIRST + position, FIRST + position + count)
        if step == "close":
            assert held.offsets(leases.close(held, mask)) == sorted((open_ones | failed) & named)
            open_ones -= named
            failed -= named
        elif step == "fail":
            leases.fail(held, mask)
            failed |= named - open_ones - lost
        elif step == "hold":
            leases.hold(held, mask)
            open_ones |= failed & named
            failed -= named
        else:
            is_known = bool(open_ones)
            leases.refuse(0, 0, [LeaseRange(7, FIRST + position, FIRST + position + count), LeaseRange(8, 0, 1_000)])
            if is_known:
                lost |= (open_ones | failed) & named
                open_ones -= named
                failed -= named
        assert held.offsets(held.unsettled) == sorted(open_ones)
        assert held.offsets(held.failed) == sorted(failed)
        assert held.offsets(held.lost) == sorted(lost)
        assert leases.unsettled_count == len(open_ones)
        assert leases.partitions == ([0] if open_ones else [])


def test_a_message_extended_by_hand_is_left_out_of_renewals_for_a_while():
    held = lease(4)
    held.extended = {FIRST + 1: 500, FIRST + 2: 2_000}
    assert held.offsets(held.renewable(1_000)) == [FIRST, FIRST + 1, FIRST + 3]
    assert held.extended == {FIRST + 2: 2_000}


def test_at_most_once_leaves_nothing_unsettled():
    assert lease(5, lease_id=0).unsettled == 0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30)), max_size=60))
def test_masks_name_exactly_the_messages_in_whatever_order_they_come(places):
    held = [lease(31, lease_id=number + 1, first=FIRST + 31 * number) for number in range(3)]
    messages = [tuple.__new__(Leased, (b"", held[number].first + at, held[number], "owner")) for number, at in places]
    masks = masks_of(messages)
    assert {(one.lease_id, offset) for one, mask in masks.items() for offset in one.offsets(mask)} == {
        (message._lease.lease_id, message.offset) for message in messages
    }
    assert all(masks.values())
