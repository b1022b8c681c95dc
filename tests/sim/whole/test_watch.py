"""The checkers of consensus see mistakes of real brokers."""

import pytest

from flotilla.sim.devices.world import SECOND
from flotilla.sim.mutants.mutants import applied
from flotilla.sim.whole.plan import WholePlan
from flotilla.sim.whole.run import simulate_whole


@pytest.mark.parametrize(
    ("mutant", "promise"),
    [
        ("forget-vote", "durable before send"),
        ("send-before-sync", "durable before send"),
        ("fewer-copies", "durable before commit"),
        ("half-votes", "leader by majority"),
    ],
)
def test_a_mistake_of_a_broker_is_seen(mutant: str, promise: str) -> None:
    with applied(mutant):
        result = simulate_whole(WholePlan(1, nodes=3, duration_us=SECOND, faults=(), workloads=("log",)))
    assert result.promise == promise


def test_the_story_tells_who_leads() -> None:
    result = simulate_whole(WholePlan(1, nodes=3, duration_us=SECOND, faults=(), workloads=("log",)))
    assert result.is_good, result.failure
    sentences = [sentence for _, sentence in result.story]
    assert any(sentence.endswith("leads the metadata") for sentence in sentences)
    assert any(sentence.endswith("leads log/1") for sentence in sentences)
