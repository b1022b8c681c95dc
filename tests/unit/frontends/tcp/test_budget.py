"""The shared budget of connections is bounded, and every connection gets its turn."""

from flotilla.frontends.tcp.budget import ByteBudget


def test_what_does_not_fit_waits_and_is_granted_in_order():
    budget = ByteBudget(10)
    granted = []
    assert budget.take(8)
    assert not budget.take(4)
    budget.wait("a", 4, lambda: granted.append("a"))
    # A small one that would fit does not overtake.
    assert not budget.take(1)
    budget.wait("b", 7, lambda: granted.append("b"))
    assert granted == []
    budget.give(8)
    assert granted == ["a"]
    assert budget.used_bytes == 4
    budget.give(4)
    assert granted == ["a", "b"]
    assert (budget.used_bytes, budget.waiting_count) == (7, 0)


def test_something_larger_than_the_whole_is_let_in_alone():
    budget = ByteBudget(10)
    assert budget.take(50)
    assert not budget.take(1)
    budget.give(50)
    assert budget.take(10)


def test_a_waiter_that_leaves_makes_way_for_the_next():
    budget = ByteBudget(10)
    granted = []
    assert budget.take(5)
    budget.wait("large", 9, lambda: granted.append("large"))
    budget.wait("small", 2, lambda: granted.append("small"))
    budget.leave("absent")
    assert granted == []
    budget.leave("large")
    assert granted == ["small"]
