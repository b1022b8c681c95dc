"""Every script in examples/ runs to its end against a real broker, prints what it should, and leaves nothing behind.

The scripts for gRPC are tested with their guide, the one for Spark beside the other tests of Spark.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from flotilla import Client
from flotilla.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
ELSEWHERE = {"spark_table.py"}

EXPECTED = {
    "app.py": [
        "fetch: HTTP://EXAMPLE.ORG",
        "ann on 01 May, attempt 1",
        "bob on 02 May, attempt 2",
        "recurring: ['example-clean-up']",
    ],
    "asyncio_worker.py": ["fetched 20 pages, the first is PAGE 0"],
    "dead_letters.py": [
        "ann died after 2 attempts: timeout",
        "bob died after 2 attempts: no such address",
        "redriven: 1",
        "purged: 1",
        "ann succeeded at attempt 1",
    ],
    "delayed.py": ["cancelled: 1", "at once: 0", "later: reminder for order 2, not too early: True"],
    "produce.py": [
        "read back: {'order': 1, 'total': 30}, schema b'order.v1'",
        "duplicate: True, same offset: True",
        "stored 1000 records",
        "events are in partitions [0, 1, 2]",
    ],
    "reader.py": [
        "from the beginning: 10 messages",
        "from offset 8: ['new 3', 'new 4']",
        "of the last ten minutes: ['new 0', 'new 1', 'new 2', 'new 3', 'new 4']",
        "after the commit: ['new 1', 'new 2', 'new 3', 'new 4']",
    ],
    "recurring.py": [
        "run 1: removing expired sessions",
        "run 2: removing expired sessions",
        "run 3: removing expired sessions",
        "kept the interval: True",
    ],
    "stream.py": ["partitions: [0, 1, 2]", "in order: True"],
    "test_reminders.py": [],
    "test_tasks.py": [],
    "transaction.py": [
        "order 1: crashed before the commit; it is delivered again",
        "invoices: ['invoice for order 0', 'invoice for order 1', 'invoice for order 2']",
    ],
    "work_queue.py": ["attempt 1 failed: the mail server is busy", "handled: urgent, ann, eve, bob"],
    "worker.py": ["handled 10 orders", "rejected: nonsense (not an order)"],
}

#: The plugin of an installed Flotilla is found by its entry point, that of a checkout may not be.
PLUGIN = [] if entry_points(group="pytest11", name="flotilla") else ["-p", "flotilla.pytest_plugin"]
#: Log lines, where a script has some.
LOGGED = {
    "app.py": "example-mail/0@1, attempt 1, is retried: the mail server is busy\n",
    "worker.py": "example-worker/0@0, attempt 1, is rejected: not an order\n",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with LocalCluster.on_free_ports(tmp_path_factory.mktemp("examples"), node_count=1) as cluster:
        cluster.start_ready()
        yield cluster.servers[0]


def test_every_example_is_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} - ELSEWHERE == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_runs_to_its_end_and_leaves_nothing(server: str, name: str, tmp_path: Path) -> None:
    runner = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *PLUGIN] if name.startswith("test_") else ["-W", "error"]
    ran = subprocess.run(
        [sys.executable, *runner, str(EXAMPLES / name)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "FLOTILLA_SERVERS": server},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, LOGGED.get(name, "")), ran.stdout
    printed = ran.stdout.splitlines()
    assert [line for line in printed if line in EXPECTED[name]] == EXPECTED[name], ran.stdout
    with Client(server) as client:
        assert [topic.name for topic in client.topics()] == []
    assert list(tmp_path.iterdir()) == []
