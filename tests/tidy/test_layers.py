"""The layers of ARCHITECTURE.md hold, proved from the imports of every module."""

import ast

import pytest

from tests.tidy.imports import (
    ALLOWED,
    FOREIGN,
    OUTSIDE_MODULES,
    is_replayed,
    layer_violations,
    machine_violations,
    order_violations,
    purity_violations,
    runs_whole,
)
from tests.tidy.tree import ROOT, Module, package_modules, parse

PACKAGES = frozenset(
    ".".join(filter(None, ("flotilla", module.name))) for module in package_modules() if module.is_package
) | {"flotilla.codec.generated"}

#: Packages for synthetic source, whether they exist yet or not.
ALL_PACKAGES = frozenset({"flotilla", *(f"flotilla.{row}" for row in ALLOWED if row)})


@pytest.mark.parametrize("module", package_modules(), ids=lambda module: module.path)
def test_imports_go_downward(module: Module) -> None:
    assert layer_violations(module, PACKAGES) == []


@pytest.mark.parametrize(
    "module", [module for module in package_modules() if is_replayed(module)], ids=lambda module: module.path
)
def test_replayed_code_does_not_reach_outside(module: Module) -> None:
    if module.name not in OUTSIDE_MODULES:
        assert purity_violations(module, PACKAGES) == []
    assert order_violations(module) == []


@pytest.mark.parametrize(
    "module", [module for module in package_modules() if runs_whole(module)], ids=lambda module: module.path
)
def test_what_the_simulator_runs_whole_uses_no_real_machine(module: Module) -> None:
    assert machine_violations(module, PACKAGES) == []
    assert order_violations(module) == []


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "from time import monotonic",
        "import threading",
        "from random import randint",
        "from secrets import token_hex",
        "import socket\nsocket.gethostname()",
        "from concurrent.futures import ThreadPoolExecutor",
        "x = datetime.now()",
        "import datetime\nx = datetime.datetime.now()",
        "import _thread",
        "import _socket",
        "import mmap",
        "import shutil",
        "from http.client import HTTPConnection",
        "from urllib.request import urlopen",
        "import uvloop",
        "import importlib\nimportlib.import_module('time')",
        "x = __import__('time')",
        "x = open('x')",
        "x = Path('x').read_bytes()",
        "x = asyncio.new_event_loop()",
        "x = hash('a')",
        "x = sorted(y, key=id)",
    ],
)
def test_a_use_of_the_real_machine_is_found(text: str) -> None:
    assert machine_violations(parse(text, "src/flotilla/broker/broker.py"), ALL_PACKAGES)


def test_the_simulator_runs_brokers_and_clients_whole() -> None:
    whole = {module.name for module in package_modules() if runs_whole(module)}
    assert whole >= {"server", "node", "broker.broker", "peers.link", "runtime.node", "gateway.gateway"}
    assert whole >= {"frontends.tcp.server", "frontends.http.server", "client.async_client", "client.queue.aio"}


def test_only_the_sim_verb_imports_the_simulator() -> None:
    rows = [row for row, allowed in ALLOWED.items() if "sim" in allowed]
    assert rows == ["cli.sim", "sim.whole"]


def test_nothing_of_the_package_imports_tests() -> None:
    for module in package_modules():
        for node in module.nodes:
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").partition(".")[0] not in ("tests", "bench"), module.path


def test_every_foreign_package_is_a_declared_dependency() -> None:
    declared = (ROOT / "pyproject.toml").read_text("utf-8")
    names = {
        "google": "protobuf",
        "grpc": "grpcio",
        "jwt": "PyJWT",
        "opentelemetry": "opentelemetry-api",
        "grpc_health": "grpcio-health-checking",
        "grpc_reflection": "grpcio-reflection",
        "pyspark": "pyspark[connect]",
    }
    for foreign in FOREIGN:
        assert f'"{names.get(foreign, foreign)}>=' in declared


def test_the_table_has_no_way_back_up() -> None:
    """The table itself is checked: no two folders may import each other."""
    for row, allowed in ALLOWED.items():
        for target in allowed:
            back = ALLOWED.get(target, ())
            assert row not in back, f"{row} and {target} import each other"


# The checks can fail.

BAD_IMPORTS = [
    ("raft/node.py", "from flotilla.partition.machine import QueueMachine"),
    ("raft/node.py", "from flotilla.replica.ports import Store"),
    ("raft/node.py", "import flotilla.codec.peer.frames"),
    ("raft/node.py", "from flotilla import codec"),
    ("raft/node.py", "from ..codec import peer"),
    ("raft/__init__.py", "from ..partition import machine"),
    ("partition/machine.py", "from flotilla.raft.messages import Entry"),
    ("metadata/machine.py", "from flotilla.partition import machine"),
    ("types/ids.py", "from flotilla.raft.messages import Entry"),
    ("codec/peer/frames.py", "from flotilla.replica.ports import Store"),
    ("storage/store.py", "from flotilla.runtime.driver import Driver"),
    ("replica/replica.py", "from flotilla.partition.state.machine import Partition"),
    ("replica/replica.py", "from flotilla.metadata.machine import MetadataMachine"),
    ("runtime/driver.py", "from flotilla.partition.state.machine import Partition"),
    ("runtime/driver.py", "def f():\n    from flotilla.storage.store import NodeStore"),
    ("peers/link.py", "from flotilla.storage.store import NodeStore"),
    ("client/session.py", "from flotilla.codec.peer.frames import encode_frame"),
    ("client/session.py", "from flotilla.broker.service import Service"),
    ("spark/source.py", "from flotilla.codec.client.frames import decode_response"),
    ("spark/source.py", "from flotilla.client._core.session import Session"),
    ("frontends/http/app.py", "from flotilla.client import _options"),
    ("server.py", "def f():\n    import flotilla.client.producer._batch"),
    ("__init__.py", "from flotilla.client.queue._core import QueueCore"),
    ("sim/devices/world.py", "from flotilla.runtime.ticker import Ticker"),
    ("sim/devices/world.py", "from flotilla.peers.link import Link"),
    ("cli/app.py", "from flotilla.sim.devices.world import World"),
    ("server.py", "from flotilla.sim.devices.world import World"),
    ("peers/link.py", "from flotilla.codec.generated import peer_pb2"),
    ("storage/store.py", "from google.protobuf.message import Message"),
    ("raft/node.py", "import crc32c"),
    ("broker/broker.py", "import typer"),
    ("frontends/http/http1/head.py", "from flotilla.types.limits import KIB"),
    ("frontends/http/http1/head.py", "from flotilla.frontends.http.framework.errors import refusal"),
    ("strange/thing.py", "import struct"),
]


@pytest.mark.parametrize(("path", "text"), BAD_IMPORTS)
def test_a_bad_import_is_found(path: str, text: str) -> None:
    assert layer_violations(parse(text, f"src/flotilla/{path}"), ALL_PACKAGES)


GOOD_IMPORTS = [
    ("raft/node.py", "from flotilla.raft.messages import Entry\nfrom flotilla.types.ids import NodeId\nimport struct"),
    ("raft/node.py", "from .messages import Entry"),
    ("codec/peer/frames.py", "from flotilla.codec.generated import peer_pb2\nfrom crc32c import crc32c"),
    ("sim/node.py", "from flotilla.runtime.driver import Driver\nfrom flotilla.runtime import driver"),
    ("cli/sim.py", "from flotilla.sim.devices.world import World\nimport typer"),
    ("cli/app.py", "from flotilla.types.version import __version__\nfrom flotilla.cli.sim import sim"),
    ("client/session.py", "from flotilla.codec.frames import FrameReader"),
    ("client/queue/aio.py", "from flotilla.client._core.session import Session"),
    ("gateway/poll.py", "from flotilla.client.queue._polls import Polls"),
    ("spark/source.py", "from flotilla.client.bulk.offsets import list_all"),
    ("frontends/http/http1/body.py", "from flotilla.frontends.http.http1.head import Head"),
    ("server.py", "from flotilla.storage.store import NodeStore\nfrom flotilla.runtime.driver import Driver"),
]


@pytest.mark.parametrize(("path", "text"), GOOD_IMPORTS)
def test_a_good_import_passes(path: str, text: str) -> None:
    assert layer_violations(parse(text, f"src/flotilla/{path}"), ALL_PACKAGES) == []


def test_code_that_the_simulator_runs_must_replay() -> None:
    replayed = {module.name for module in package_modules() if is_replayed(module)}
    expected = {"raft.node", "replica.replica", "storage.store", "storage.posix", "sim.devices.world", "runtime.driver"}
    assert expected <= replayed
    assert not replayed & {"runtime.io_thread", "runtime.ticker", "broker.broker", "server"}


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "import os.path",
        "import asyncio",
        "from threading import Lock",
        "import random",
        "from random import randint",
        "def f():\n    import socket",
        "from concurrent.futures import Future",
        "import logging as log",
        "from datetime import datetime",
        "x = datetime.now()",
        "open('x')",
        "def f():\n    print(1)",
        "x = hash('a')",
        "import fcntl",
        "import mmap",
        "import sqlite3",
        "import ctypes.util",
        "from http.client import HTTPConnection",
        "from urllib import request",
        "import _socket",
        "import importlib",
        "from sys import stdout",
        "import sys\nsys.stdout.write('x')",
        "import traceback\ntraceback.print_exc()",
    ],
)
def test_a_side_effect_is_found(text: str) -> None:
    assert purity_violations(parse(text, "src/flotilla/raft/node.py"), ALL_PACKAGES)


@pytest.mark.parametrize(
    "text",
    [
        "from random import Random",
        "disk.open('x')",
        "import struct",
        "from collections.abc import Iterator",
        "from flotilla.partition import machine",
        "from sys import intern",
        "import sys\nassert sys.byteorder == 'little'",
    ],
)
def test_code_without_side_effects_passes(text: str) -> None:
    assert purity_violations(parse(text, "src/flotilla/storage/store.py"), ALL_PACKAGES) == []


@pytest.mark.parametrize(
    "text", ["for x in {1, 2}: pass", "[x for x in set(y)]", "for x in frozenset(y): pass", "{x for x in {*a, *b}}"]
)
def test_a_loop_over_a_set_is_found(text: str) -> None:
    assert order_violations(parse(text, "src/flotilla/raft/node.py"))


@pytest.mark.parametrize("text", ["for x in sorted({1, 2}): pass", "[x for x in y]", "x in {1, 2}"])
def test_ordered_loops_pass(text: str) -> None:
    assert order_violations(parse(text, "src/flotilla/raft/node.py")) == []
