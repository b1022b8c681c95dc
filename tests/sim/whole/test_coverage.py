"""The list of events that whole runs must reach is the list of events that they count."""

import ast

from flotilla.sim.whole.coverage import SOMETIMES, count_outcomes, missing
from flotilla.sim.whole.faults.faults import FAULTS
from flotilla.sim.whole.plan import WholePlan
from flotilla.sim.whole.simulation import Simulation
from tests.tidy.markdown import table_rows
from tests.tidy.tree import package_modules, texts


def _counted() -> set[str]:
    calls = [
        node
        for module in package_modules()
        if module.name.startswith("sim.whole")
        for node in module.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("note", "seen")
    ]
    return {call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)}


def test_every_event_that_is_counted_is_in_the_list() -> None:
    counted = _counted()
    assert counted
    assert counted - set(SOMETIMES) == set()


def test_what_was_never_reached_is_missing() -> None:
    reached = dict.fromkeys(SOMETIMES, 1)
    assert missing(reached) == []
    reached["clock jumped"] = 0
    assert missing(reached) == ["clock jumped"]


def test_a_transaction_outlives_its_coordinator_only_if_that_was_killed() -> None:
    simulation = Simulation(WholePlan(1, nodes=3, duration_us=1, faults=(), workloads=()))
    for client in ("alive", "dead"):
        simulation.history.begin(client, "transaction", id=client)
    simulation.history.cut("dead")
    event = "transaction decided after its coordinator died"
    for name, count in (("alive", 0), ("dead", 1), ("dead", 1)):
        simulation.service.registry.decided(name, is_committed=False, groups=())
        assert simulation.sometimes.counts[event] == count
    simulation.close()


def test_full_queues_of_clients_and_of_brokers_are_told_apart() -> None:
    simulation = Simulation(WholePlan(1, nodes=3, duration_us=1, faults=(), workloads=()))
    internet, brokers = simulation.cluster.internet, [broker.host for broker in simulation.cluster.brokers.values()]
    internet.full_queues = {brokers[0]: 3, simulation.cluster.client_host("c"): 2}
    count_outcomes(simulation.sometimes, 0, internet, brokers)
    assert simulation.sometimes.counts["dial met a full queue"] == 5
    assert simulation.sometimes.counts["client met a full accept queue"] == 2


def test_the_document_lists_every_event_and_every_fault() -> None:
    rows = table_rows(texts()["docs/simulation.md"])
    assert [(row[0], row[1]) for row in rows if row[0] in SOMETIMES] == list(SOMETIMES.items())
    named = {name for row in rows for name in row[0].replace("`", "").split(", ")}
    assert set(FAULTS) - named == set()
