"""Labels of nodes in the metadata: from which version on, and what placement makes of them."""

import pytest

from flotilla.metadata.commands import CreateTopic, LabelNode, RemoveBroker, SetClusterVersion
from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.move_commands import ResizeTopic
from flotilla.metadata.values import Labels
from flotilla.types.errors import ConfigurationChangeError, FlotillaError, InvalidArgumentError, OverloadedError
from flotilla.types.topics import BROKER_COUNT_MAX
from flotilla.types.version import NODES_LABELLED
from tests.unit.metadata.entries import Log, cluster


def labelled(*machines: str) -> Log:
    """A cluster with a broker on each of these machines."""
    log = cluster(len(machines))
    log.command(SetClusterVersion(NODES_LABELLED, tuple(range(1, len(machines) + 1)), 60))
    for node, machine in enumerate(machines, 1):
        assert log.command(LabelNode(node, machine, "", 60)) is None
    return log


def test_a_cluster_of_an_earlier_version_has_none():
    log = cluster()
    log.command(SetClusterVersion(NODES_LABELLED - 1, (1, 2, 3), 60))
    before = log.machine.snapshot()
    assert isinstance(log.command(LabelNode(1, "m", "z", 60)), ConfigurationChangeError)
    assert log.machine.state.labels == {}
    log.machine.applied -= 2
    assert log.machine.snapshot() == before


def test_they_are_replaced_and_removed():
    log = labelled("m1", "m2", "m3")
    log.command(LabelNode(1, "m1", "a", 61))
    log.command(LabelNode(2, "", "", 61))
    log.command(RemoveBroker(3, 62))
    assert log.machine.state.labels == {1: Labels("m1", "a")}
    assert isinstance(log.command(LabelNode(3, "m3", "", 63)), ConfigurationChangeError)
    restored = MetadataMachine()
    restored.restore(log.machine.snapshot())
    assert restored.state.labels == log.machine.state.labels
    assert restored.snapshot() == log.machine.snapshot()


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (LabelNode(0, "m", "", 60), InvalidArgumentError),
        (LabelNode(1, "m" * 254, "", 60), InvalidArgumentError),
        (LabelNode(1, "", "a b", 60), InvalidArgumentError),
        (LabelNode(1, "", "ä", 60), InvalidArgumentError),
    ],
)
def test_bad_ones_are_refused(command, error):
    log = labelled("", "", "")
    assert isinstance(log.machine.check(command), error)
    assert isinstance(log.command(command), error)
    assert log.machine.state.labels == {}


def test_there_are_at_most_as_many_as_brokers():
    log = labelled("", "", "")
    for node in range(1, BROKER_COUNT_MAX + 1):
        assert not isinstance(log.command(LabelNode(node, "m", "", 60)), FlotillaError)
    assert isinstance(log.command(LabelNode(BROKER_COUNT_MAX + 1, "m", "", 60)), OverloadedError)
    assert log.command(LabelNode(1, "n", "", 60)) is None


def test_replicas_go_to_different_machines():
    log = labelled("m1", "m1", "m2", "m2", "m3", "m3")
    machines = {node: labels.machine for node, labels in log.machine.state.labels.items()}
    topic = log.create("t", 4, 2)
    topic = log.command(ResizeTopic("t", 3, 70)) or topic
    for partition in topic.partitions:
        assert {machines[node] for node in partition.wanted} == {"m1", "m2", "m3"}
    topic = log.command(ResizeTopic("t", 2, 71))
    assert all(len({machines[node] for node in partition.wanted}) == 2 for partition in topic.partitions)


def test_a_topic_with_more_replicas_than_machines_is_created():
    log = labelled("m1", "m1", "m2")
    assert not isinstance(log.command(CreateTopic("t", 2, 3, (), 70)), FlotillaError)
    assert [set(partition.replicas) for partition in log.machine.state.topic("t").partitions] == [{1, 2, 3}] * 2
