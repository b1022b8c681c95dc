"""Power cuts under the real store: files lose what was not synced, and nothing that was acknowledged is gone.

A process writes through `NodeStore` under the library of `flotilla chaos`, which notes every write and sync. It is
killed at any point; then its folder is rewritten to what a power cut leaves, and opened again.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from flotilla.cli.chaos.machine.preload import Machine, build_preload, missing_compiler
from flotilla.cli.chaos.machine.undo_log import UndoLog
from flotilla.storage.store import NodeStore
from flotilla.types.errors import FlotillaError, NotLoadedError
from tests.integration.power.writer import GROUP, content, open_store

ROOT = Path(__file__).parents[3]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler() or "-"),
]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(build_preload(tmp_path), tmp_path / "node")


class Writer:
    """The process, and what it has acknowledged."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.power.writer", str(machine.data), str(seed)],
            cwd=ROOT,
            env={**os.environ, **machine.environment, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            stdout=subprocess.PIPE,
            text=True,
        )

    def lines(self) -> Iterator[str]:
        assert self._process.stdout is not None
        return iter(self._process.stdout)

    def write(self, count: int) -> int:
        """Lets it acknowledge so many blocks; the last index."""
        last = 0
        for line, _ in zip(self.lines(), range(count + 1), strict=False):
            last = int(line.split()[-1])
        return last

    def kill(self) -> int:
        """SIGKILL; the highest index among the lines that it still printed, 0: none."""
        self._process.kill()
        rest = [int(line.split()[-1]) for line in self.lines() if line.endswith("\n")]
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return max(rest, default=0)


def check_log(machine: Machine, acknowledged: int) -> int:
    """Everything acknowledged is there and whole, and the vote with it. Returns the last index.

    Of the block that was being written an entry may be known and damaged: other replicas would mend or replace it.
    """
    store = open_store(str(machine.data))
    try:
        log = store.groups[GROUP]
        last = log.last_index()
        assert last >= acknowledged
        assert log.hard_state.term >= acknowledged
        for index in range(1, acknowledged + 1):
            assert read_entry(store, index) == content(index)
        return last
    finally:
        store.close()
        store._disk.close()


def read_entry(store: NodeStore, index: int) -> bytes:
    while True:
        try:
            (entry,) = store.groups[GROUP].entries(index, index + 1, 1 << 20)
        except NotLoadedError:
            for load in store.take_loads():
                load.run()
                store.finish_load(load)
        else:
            return bytes(entry.data)


@pytest.mark.parametrize("seed", range(1, 5))
def test_nothing_acknowledged_is_lost_when_the_power_goes(machine: Machine, seed: int) -> None:
    random = Random(seed)
    acknowledged = 0
    taken = 0
    for cut in range(4):
        writer = Writer(machine, seed * 100 + cut)
        acknowledged = max(acknowledged, writer.write(random.randrange(1, 120)))
        acknowledged = max(acknowledged, writer.kill())
        taken += UndoLog(machine.undo).cut_power(machine.data, random).total
        check_log(machine, acknowledged)
        # The check above recovered on files that no library watches: all that it wrote is durable.
    assert taken or acknowledged


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_cut_while_it_recovers_from_a_kill_loses_nothing(machine: Machine, seed: int) -> None:
    random = Random(seed)
    acknowledged = 0
    for cut in range(3):
        writer = Writer(machine, seed * 100 + cut)
        acknowledged = max(acknowledged, writer.write(random.randrange(1, 60)), writer.kill())
        # Restarts on what the page cache holds, and dies soon after it has opened, or before.
        writer = Writer(machine, seed * 100 + cut)
        acknowledged = max(acknowledged, writer.write(random.randrange(-1, 3)), writer.kill())
        UndoLog(machine.undo).cut_power(machine.data, random)
        check_log(machine, acknowledged)


def test_a_disk_that_lies_about_its_syncs_does_lose_what_was_acknowledged(machine: Machine) -> None:
    """The rig can fail: without honest syncs the same cut takes acknowledged entries away."""
    machine.set(is_lying=1)
    writer = Writer(machine, 1)
    acknowledged = max(writer.write(60), writer.kill())
    UndoLog(machine.undo).cut_power(machine.data, Random(1))
    # Whatever is missing first: the group, its entries, or the journal as a whole.
    with pytest.raises((AssertionError, KeyError, FlotillaError)):
        check_log(machine, acknowledged)
