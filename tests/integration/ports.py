"""Ports for the processes of tests: no two clusters that run side by side get the same one.

A port is free as long as no process listens, also between its choice and the start of its broker, or while it is down.
So every process of the test runner hands out its own share, and each port once before any of them again. A reservation
keeps it from other runs of the tests until its broker has started.
"""

import itertools
import os
import random
import socket
from dataclasses import astuple
from pathlib import Path

from flotilla.cli.local_cluster import FREE_PORTS, RESERVATIONS, LocalCluster

LOOPBACK = "127.0.0.1"

_runner = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_runners = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
#: What this process of the test runner may hand out.
PORTS_HERE = FREE_PORTS[_runner::_runners]


_in_turn = itertools.cycle(random.sample(PORTS_HERE, len(PORTS_HERE)))


def free_ports(count: int) -> tuple[int, ...]:
    return tuple(itertools.islice(filter(_is_free, _in_turn), count))


def free_base_port(node_count: int = 3) -> int:
    """For `flotilla cluster start --base-port`: all ports of its nodes are free."""
    for port in _in_turn:
        nodes = LocalCluster.on_ports_from(port, Path(), node_count=node_count).nodes.values()
        if all(_is_free(each) for node in nodes for each in astuple(node.ports)):
            return port
    raise AssertionError("the ports in turn never end")


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
        except OSError:
            return False
    return RESERVATIONS.take(port)
