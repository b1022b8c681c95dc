"""Brokers on disks whose reads hang by command: the library of chaos runs is loaded under them."""

from pathlib import Path

import pytest

from flotilla.cli.chaos.machine.preload import Machine, build_preload, missing_compiler
from tests.integration.broker.cluster import Broker, BrokerCluster

#: What a broker needs of its machine. Without an undo log: there are no power cuts here.
_VARIABLES = ("LD_PRELOAD", "CHAOS_ROOT", "CHAOS_CONTROL")


def put_on_machines(cluster: BrokerCluster) -> dict[int, Machine]:
    """Before the start. Skips the test where the library cannot be built."""
    if why := missing_compiler():
        pytest.skip(why)
    library = build_preload(cluster.folder)
    return {node: _machine(broker, library) for node, broker in cluster.brokers.items()}


def _machine(broker: Broker, library: Path) -> Machine:
    machine = Machine(library, broker.data)
    broker.prefix = ("env", *(f"{name}={machine.environment[name]}" for name in _VARIABLES))
    return machine
