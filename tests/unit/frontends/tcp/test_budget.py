"""The shared budget of connections is bounded, and every connection gets its turn."""

from flotilla.frontends.tcp.budget import ByteBudget


def test_requests_that_do_not_fit_wait_and_are_served_in_order():
    budget = ByteBudget(10)
    served = []
    assert budget.take(8)
    assert not budget.take(4)
    budget.wait("a", 4, lambda: served.append("a"))
    # A small one that would fit does not overtake.
    assert not budget.take(1)
    budget.wait("b", 7, lambda: served.append("b"))
    assert served == []
    budget.give(8)
    assert served == ["a"]
    assert budget.used_bytes == 4
    budget.give(4)
    assert served == ["a", "b"]
    assert (budget.used_bytes, budget.waiting_count) == (7, 0)


def test_something_larger_than_the_whole_is_let_in_alone():
    budget = ByteBudget(10)
    assert budget.take(50)
    assert not budget.take(1)
    budget.give(50)
    assert budget.take(10)


def test_a_waiter_that_leaves_makes_way_for_the_next():
    budget = ByteBudget(10)
    served = []
    assert budget.take(5)
    budget.wait("large", 9, lambda: served.append("large"))
    budget.wait("small", 2, lambda: served.append("small"))
    budget.leave("absent")
    assert served == []
    budget.leave("large")
    assert served == ["small"]
