"""Leases that a gateway has forwarded: the unsettled and unexpired ones are kept."""

from flotilla.gateway import forwarded_leases
from flotilla.gateway.forwarded_leases import ForwardedLease, ForwardedLeases, forward
from flotilla.types.address import Address
from flotilla.types.operations.queue import ACK, Delivery, Extend, LeaseRange, Settle

ONE, TWO = Address("one", 1), Address("two", 2)


def forwarded_to(
    leases: ForwardedLeases, first: int, count: int, *, lease_id: int = 7, member: str = "me", leader: Address = ONE,
    until_ms: int = 1_000, partition: int = 0, now_ms: int = 0,
) -> ForwardedLease:  # fmt: skip
    delivery = Delivery(partition, lease_id, first, count, 1, b"")
    forwarded = forward("t", "g", member, delivery, leader=leader, until_ms=until_ms)
    leases.add(forwarded, now_ms)
    return forwarded


def test_settled_messages_are_not_presented() -> None:
    leases = ForwardedLeases()
    forwarded_to(leases, 0, 5)
    forwarded_to(leases, 5, 5, until_ms=2_000)
    leases.settled(Settle("t", 0, "g", ACK, []), [LeaseRange(7, 1, 3), LeaseRange(8, 4, 5), LeaseRange(7, 9, 10)])
    assert len(leases) == 7
    assert ForwardedLeases.presentations(leases.of_leader(ONE), 100) == [
        Extend("t", 0, "g", "me", [LeaseRange(7, 0, 1), LeaseRange(7, 3, 5)], 900),
        Extend("t", 0, "g", "me", [LeaseRange(7, 5, 9)], 1_900),
    ]
    assert ForwardedLeases.presentations(leases.of_leader(ONE), 1_500) == [
        Extend("t", 0, "g", "me", [LeaseRange(7, 5, 9)], 500)
    ]


def test_a_run_without_a_lease_is_whatever_is_held() -> None:
    leases = ForwardedLeases()
    forwarded = forwarded_to(leases, 3, 2)
    leases.settled(Settle("t", 0, "g", ACK, []), [LeaseRange(0, 3, 4)])
    assert forwarded.lease.unsettled == 0b10
    leases.settled(Settle("t", 0, "other", ACK, []), [LeaseRange(0, 4, 5)])
    leases.settled(Settle("t", 1, "g", ACK, []), [LeaseRange(0, 4, 5)])
    assert len(leases) == 1


def test_a_run_may_claim_any_length() -> None:
    leases = ForwardedLeases()
    forwarded_to(leases, 3, 2)
    leases.settled(Settle("t", 0, "g", ACK, []), [LeaseRange(7, 4, 2**63)])
    assert len(leases) == 1


def test_leases_are_found_by_leader_and_by_partition() -> None:
    leases = ForwardedLeases()
    here, there = forwarded_to(leases, 0, 1), forwarded_to(leases, 0, 1, partition=1, leader=TWO)
    assert leases.of_leader(ONE) == [here]
    assert leases.of_leader(TWO) == [there]
    assert leases.of_partition("t", 1) == [there]
    assert leases.of_partition("other", 1) == []


def test_an_extension_counts_from_then_on() -> None:
    leases = ForwardedLeases()
    forwarded = forwarded_to(leases, 0, 4)
    leases.extended(Extend("t", 0, "g", "you", [LeaseRange(7, 0, 4)], 300), 500)
    assert (forwarded.until_ms, forwarded.member) == (500, "you")
    leases.extended(Extend("t", 0, "g", "you", [LeaseRange(7, 1, 2)], 300), 300)
    assert forwarded.until_ms == 500
    leases.extended(Extend("t", 0, "g", "you", [LeaseRange(7, 1, 2)], 300), 900)
    assert forwarded.until_ms == 900


def test_a_message_that_is_forwarded_again_belongs_to_the_new_lease() -> None:
    leases = ForwardedLeases()
    forwarded_to(leases, 0, 2)
    again = forwarded_to(leases, 0, 1, lease_id=9, member="you", now_ms=500, until_ms=1_500)
    assert len(leases) == 2
    leases.settled(Settle("t", 0, "g", ACK, []), [LeaseRange(7, 0, 1)])
    assert again.lease.unsettled == 1


def test_expired_leases_are_forgotten_and_there_is_a_bound(monkeypatch) -> None:
    monkeypatch.setattr(forwarded_leases, "FORWARDED_MAX", 5)
    leases = ForwardedLeases()
    forwarded_to(leases, 0, 3)
    forwarded_to(leases, 3, 3)
    assert len(leases) == 3
    forwarded_to(leases, 6, 3, now_ms=20_000, until_ms=30_000)
    assert len(leases) == 3
    assert [forwarded.lease.first for forwarded in leases.of_leader(ONE)] == [6]


def test_deliveries_without_a_lease_are_not_kept() -> None:
    leases = ForwardedLeases()
    forwarded_to(leases, 0, 3, lease_id=0)
    assert len(leases) == 0


def test_a_member_that_has_left_presents_nothing() -> None:
    leases = ForwardedLeases()
    mine, other = forwarded_to(leases, 0, 3), forwarded_to(leases, 3, 2, member="you")
    third = forwarded_to(leases, 0, 1, partition=1)
    leases.left("t", "other", "me")
    assert len(leases) == 6
    leases.left("t", "g", "me")
    assert (len(leases), leases.of_leader(ONE)) == (2, [other])
    assert (mine.lease.unsettled, third.lease.unsettled) == (0, 0)
