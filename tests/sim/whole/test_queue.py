"""A queue of the whole product in simulated time, with nothing but consumers that die."""

from flotilla.sim.whole.plan import WholePlan
from flotilla.sim.whole.run import simulate_whole


def test_a_queue_keeps_its_promises_and_repeats() -> None:
    plan = WholePlan(1, nodes=3, duration_us=8_000_000, faults=(), workloads=("queue",))
    first, second = simulate_whole(plan), simulate_whole(plan)
    assert first.is_good, first.failure
    assert (first.digest, first.calls) == (second.digest, second.calls)
    assert first.sometimes["a client dies"]
    assert first.history is not None
    assert {call.arguments["how"] for call in first.history.of("settle")} == {"ack", "nack", "release", "reject"}
