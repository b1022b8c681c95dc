"""The table of leases: runs, deadlines, members, and that it forgets."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flotilla.partition.leader.leases import EARLIER, MEMBER_IDLE_MS, OWN, STALE, LeaseIds, LeaseTable


def new_table(term: int = 3) -> LeaseTable:
    return LeaseTable(LeaseIds(term))


def test_ids_are_of_a_term_and_never_given_twice() -> None:
    ids = LeaseIds(5)
    assert [ids.new(), ids.new()] == [5 << 40 | 1, 5 << 40 | 2]


@pytest.mark.parametrize(
    ("lease_id", "origin"),
    [
        (3 << 40 | 2, OWN),
        (3 << 40 | 1, STALE),
        (3 << 40 | 3, STALE),
        (2 << 40 | 1, EARLIER),
        (4 << 40 | 1, STALE),
        (0, STALE),
        (-1, STALE),
    ],
)
def test_the_origin_of_a_lease_id(lease_id: int, origin: int) -> None:
    ids = LeaseIds(3)
    ids.new()
    table = LeaseTable(ids)
    table.give("m", [(0, 1)], 100, 0)
    assert table.origin_of(lease_id) == origin


def test_parts_of_a_lease_are_taken_out() -> None:
    table = new_table()
    lease = table.find(table.give("m", [(0, 10), (20, 30)], 100, 0))
    assert lease is not None
    assert table.take(lease, 5, 25) == [(5, 10, 100), (20, 25, 100)]
    assert lease.runs == [(0, 5, 100), (25, 30, 100)]
    assert (table.count, table.members["m"].leased) == (10, 10)
    assert table.take(lease, 5, 25) == []
    assert table.take(lease, 0, 100) == [(0, 5, 100), (25, 30, 100)]
    assert table.find(lease.lease_id) is None
    assert len(table) == table.count == 0
    assert table.next_wake_ms() is None


def test_leases_expire_in_the_order_of_their_deadlines_and_not_before() -> None:
    table = new_table()
    table.give("m", [(0, 1)], 300, 0)
    table.give("m", [(1, 2)], 100, 0)
    table.give("m", [(2, 3)], 200, 0)
    assert table.next_wake_ms() == 100
    assert table.expire(99, 10) == []
    assert table.expire(250, 10) == [(1, 2, 100), (2, 3, 200)]
    assert table.next_wake_ms() == 300
    assert table.expire(300, 10) == [(0, 1, 300)]


def test_so_many_leases_expire_at_once_and_no_more() -> None:
    table = new_table()
    for offset in range(5):
        table.give("m", [(offset, offset + 1)], 100, 0)
    assert len(table.expire(100, 3)) == 3
    assert table.next_wake_ms() == 100
    assert len(table.expire(100, 3)) == 2


def test_a_part_of_a_lease_can_last_longer_or_shorter() -> None:
    table = new_table()
    lease = table.find(table.give("m", [(0, 10)], 100, 0))
    assert lease is not None
    assert table.extend(lease, 2, 4, 500) == [(2, 4, 100)]
    assert table.extend(lease, 8, 12, 50) == [(8, 10, 100)]
    assert table.next_wake_ms() == 50
    assert table.expire(100, 10) == [(8, 10, 50)] or table.count == 2
    table.expire(100, 10)
    assert lease.runs == [(2, 4, 500)]
    assert table.extend(lease, 2, 4, 600) == [(2, 4, 500)]
    assert table.expire(599, 10) == []
    assert table.expire(600, 10) == [(2, 4, 600)]


def test_equal_deadlines_are_one_run_again() -> None:
    table = new_table()
    lease = table.find(table.give("m", [(0, 10)], 100, 0))
    assert lease is not None
    for offset in range(10):
        table.extend(lease, offset, offset + 1, 200)
    assert lease.runs == [(0, 10, 200)]


def test_runs_can_be_restored_after_their_lease_has_ended() -> None:
    table = new_table()
    lease = table.find(table.give("m", [(0, 4)], 100, 0))
    assert lease is not None
    taken = table.take(lease, 0, 4)
    table.restore(lease, taken[0], 50)
    assert table.find(lease.lease_id) is lease
    assert table.expire(100, 10) == [(0, 4, 100)]


def test_a_lost_member_holds_nothing_and_gets_nothing_back_by_mistake() -> None:
    table = new_table()
    lease = table.find(table.give("m", [(0, 4)], 100, 0))
    assert lease is not None
    (taken,) = table.take(lease, 0, 1)
    table.give("n", [(4, 5)], 100, 0)
    assert table.drop_member("m") == [(1, 4, 100)]
    assert table.count == 1
    table.restore(lease, taken, 0)
    assert lease.runs == [(0, 1, 100)]
    assert table.count == 2
    assert table.drop_member("absent") == []


def test_leases_of_an_earlier_term_keep_their_id() -> None:
    table = new_table()
    old = 2 << 40 | 7
    table.adopt(old, "m", (0, 2), 100, 0)
    table.adopt(old, "m", (5, 6), 100, 0)
    lease = table.find(old)
    assert lease is not None
    assert lease.runs == [(0, 2, 100), (5, 6, 100)]
    assert table.lease_at(5) == (lease, 100)
    assert table.lease_at(3) is None


def test_settled_leases_do_not_pile_up_until_their_deadlines() -> None:
    table = new_table()
    for offset in range(10_000):
        lease = table.find(table.give("m", [(offset, offset + 1)], 10**9, 0))
        assert lease is not None
        table.take(lease, offset, offset + 1)
    assert len(table._heap) < 200


def test_a_lease_that_is_extended_for_ever_costs_one_entry() -> None:
    table = new_table()
    lease = table.find(table.give("m", [(0, 1)], 10, 0))
    assert lease is not None
    for now_ms in range(10_000):
        table.extend(lease, 0, 1, now_ms + 10)
        assert table.expire(now_ms, 10) == []
    assert len(table._heap) < 10


def test_members_that_are_gone_are_forgotten() -> None:
    table = new_table()
    table.give("busy", [(0, 1)], 10**9, 0)
    for number in range(3_000):
        table.see(f"m{number}", 0)
    table.see("late", MEMBER_IDLE_MS)
    for number in range(3_000):
        table.see(f"n{number}", MEMBER_IDLE_MS + 1)
    assert "busy" in table.members
    assert "m0" not in table.members


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["take", "extend", "expire", "restore"]), st.integers(0, 40), st.integers(1, 10)),
        max_size=40,
    )
)
def test_against_a_dict(steps: list[tuple[str, int, int]]) -> None:
    table = new_table()
    lease = table.find(table.give("m", [(0, 20), (30, 45)], 20, 0))
    assert lease is not None
    naive = dict.fromkeys((*range(20), *range(30, 45)), 20)
    taken: list[tuple[int, int, int]] = []
    for what, first, size in steps:
        end = first + size
        inside = [offset for offset in range(first, end) if offset in naive]
        if what == "take":
            taken = table.take(lease, first, end)
            assert [offset for low, high, _ in taken for offset in range(low, high)] == inside
            for offset in inside:
                del naive[offset]
        elif what == "extend" and naive:
            table.extend(lease, first, end, first + 5)
            naive.update(dict.fromkeys(inside, first + 5))
        elif what == "expire":
            expired = [offset for low, high, _ in table.expire(first, 10) for offset in range(low, high)]
            gone = [offset for offset in sorted(naive) if naive[offset] <= first]
            assert sorted(expired) == gone
            for offset in gone:
                del naive[offset]
        elif what == "restore":
            for run in taken:
                table.restore(lease, run, 0)
                naive.update(dict.fromkeys(range(run[0], run[1]), run[2]))
            taken = []
        assert {offset: each for low, high, each in lease.runs for offset in range(low, high)} == naive
        assert table.count == len(naive)
