"""What a gateway remembers of leases that its clients hold: just what is not settled and has not run out."""

from flotilla.gateway import forwarded_leases as forwarded_leases
from flotilla.gateway.forwarded_leases import ForwardedLease, ForwardedLeases, forward
from flotilla.types.address import Address
from flotilla.types.operations.queue import Delivery, Extend, LeaseRange

ONE, TWO = Address("one", 1), Address("two", 2)


def by_offset(
    books: ForwardedLeases, first: int, count: int, *, lease_id: int = 7, member: str = "me", leader: Address = ONE,
    until_ms: int = 1_000, partition: int = 0, now_ms: int = 0,
) -> ForwardedLease:  # fmt: skip
    delivery = Delivery(partition, lease_id, first, count, 1, b"")
    forwarded = forward("t", "g", member, delivery, leader=leader, until_ms=until_ms)
    books.add(forwarded, now_ms)
    return forwarded


def test_what_is_settled_is_not_presented() -> None:
    books = ForwardedLeases()
    by_offset(books, 0, 5)
    by_offset(books, 5, 5, until_ms=2_000)
    books.settled("t", "g", 0, [LeaseRange(7, 1, 3), LeaseRange(8, 4, 5), LeaseRange(7, 9, 10)])
    assert len(books) == 7
    assert ForwardedLeases.presentations(books.of_leader(ONE), 100) == [
        Extend("t", 0, "g", "me", [LeaseRange(7, 0, 1), LeaseRange(7, 3, 5)], 900),
        Extend("t", 0, "g", "me", [LeaseRange(7, 5, 9)], 1_900),
    ]
    assert ForwardedLeases.presentations(books.of_leader(ONE), 1_500) == [
        Extend("t", 0, "g", "me", [LeaseRange(7, 5, 9)], 500)
    ]


def test_a_run_without_a_lease_is_whatever_is_held() -> None:
    books = ForwardedLeases()
    forwarded = by_offset(books, 3, 2)
    books.settled("t", "g", 0, [LeaseRange(0, 3, 4)])
    assert forwarded.lease.unsettled == 0b10
    books.settled("t", "other", 0, [LeaseRange(0, 4, 5)])
    books.settled("t", "g", 1, [LeaseRange(0, 4, 5)])
    assert len(books) == 1


def test_a_run_may_claim_any_length() -> None:
    books = ForwardedLeases()
    by_offset(books, 3, 2)
    books.settled("t", "g", 0, [LeaseRange(7, 4, 2**63)])
    assert len(books) == 1


def test_loans_are_found_by_their_leader_and_by_their_partition() -> None:
    books = ForwardedLeases()
    here, there = by_offset(books, 0, 1), by_offset(books, 0, 1, partition=1, leader=TWO)
    assert books.of_leader(ONE) == [here]
    assert books.of_leader(TWO) == [there]
    assert books.of_partition("t", 1) == [there]
    assert books.of_partition("other", 1) == []


def test_an_extension_counts_from_then_on() -> None:
    books = ForwardedLeases()
    forwarded = by_offset(books, 0, 4)
    books.extended(Extend("t", 0, "g", "you", [LeaseRange(7, 0, 4)], 300), 500)
    assert (forwarded.until_ms, forwarded.member) == (500, "you")
    books.extended(Extend("t", 0, "g", "you", [LeaseRange(7, 1, 2)], 300), 300)
    assert forwarded.until_ms == 500
    books.extended(Extend("t", 0, "g", "you", [LeaseRange(7, 1, 2)], 300), 900)
    assert forwarded.until_ms == 900


def test_what_is_lent_again_is_the_new_borrowers() -> None:
    books = ForwardedLeases()
    by_offset(books, 0, 2)
    again = by_offset(books, 0, 1, lease_id=9, member="you", now_ms=500, until_ms=1_500)
    assert len(books) == 2
    books.settled("t", "g", 0, [LeaseRange(7, 0, 1)])
    assert again.lease.unsettled == 1


def test_what_has_run_out_is_forgotten_and_there_is_a_bound(monkeypatch) -> None:
    monkeypatch.setattr(forwarded_leases, "FORWARDED_MAX", 5)
    books = ForwardedLeases()
    by_offset(books, 0, 3)
    by_offset(books, 3, 3)
    assert len(books) == 3
    by_offset(books, 6, 3, now_ms=20_000, until_ms=30_000)
    assert len(books) == 3
    assert [forwarded.lease.first for forwarded in books.of_leader(ONE)] == [6]


def test_what_needs_no_settling_is_not_remembered() -> None:
    books = ForwardedLeases()
    by_offset(books, 0, 3, lease_id=0)
    assert len(books) == 0
