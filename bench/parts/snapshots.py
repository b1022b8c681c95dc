"""How long the event loop is held while the snapshot of a large state is taken, and while one is installed.

The state is frozen on the loop and encoded on a thread; a leader's snapshot is received on the loop, decoded on a
thread and taken over on the loop, and the state that it replaces is freed on a thread. A starting node decodes its own
in the same way. A timer on the loop notes the longest time in which it did not run: the steps on the loop, and the
longest step in which the thread keeps the interpreter. It is counted in processor time of the process, so that other
processes of a busy machine do not count.
"""

import asyncio
import gc
import sys
import threading
from collections.abc import Callable, Iterable
from time import process_time

from bench.figure import Figure, Goal, relate
from bench.options import BenchOptions
from flotilla.partition.batch_facts import BatchFacts
from flotilla.partition.state.group import GroupState
from flotilla.partition.state.machine import PartitionMachine
from flotilla.raft.incoming_snapshot import IncomingSnapshot
from flotilla.raft.messages import Configuration, SnapshotChunk, SnapshotMeta
from flotilla.runtime.node import Discard
from flotilla.runtime.process import GC_THRESHOLDS, SWITCH_INTERVAL_S
from flotilla.types.limits import SNAPSHOT_CHUNK_BYTES_MAX

AREA = "snapshots"
HELD_MS_MAX = 20.0
_FAILED = 1_000_000
_PRODUCERS = 200_000
_PULSE_S = 0.001


def _describe(_: bytes | memoryview) -> BatchFacts | None:
    return None


def with_failures(count: int) -> PartitionMachine:
    """A partition with a queue group in which every message has failed, each at its own time."""
    machine = PartitionMachine(_describe)
    group = machine.groups["group"] = GroupState(0, 1)
    for offset in range(count):
        group.fail(offset, offset + 1, 1_700_000_000_000 + offset, f"reason {offset % 50}")
    return _filled(machine, count)


def with_producers(count: int) -> PartitionMachine:
    """A partition in which every batch came from a producer of its own."""
    machine = PartitionMachine(_describe)
    machine.producers.configure(1_000_000, 1 << 40)
    for number in range(count):
        machine.producers.record(number * 7_919 % (1 << 40), 0, 0, 1, number)
    return _filled(machine, count)


def _filled(machine: PartitionMachine, count: int) -> PartitionMachine:
    machine.next_offset = machine.end_offset = count
    machine.index.append(0, count, 0, 0)
    return machine


class Pulse:
    """Notes the longest time in which the loop did not run."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._last_s = process_time()
        self._is_over = False
        self._beat()

    def _beat(self) -> None:
        now_s = process_time()
        self.longest_s = max(self.longest_s, now_s - self._last_s - _PULSE_S)
        self._last_s = now_s
        if not self._is_over:
            asyncio.get_running_loop().call_later(_PULSE_S, self._beat)

    def end(self) -> float:
        self._beat()
        self._is_over = True
        return self.longest_s


async def _on_thread(work: Callable[[], object]) -> None:
    """On a thread of its own, as background jobs run."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def run() -> None:
        work()
        loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, daemon=True).start()
    await done.wait()


def _write(pieces: Iterable[bytes]) -> None:
    for _ in pieces:
        pass


async def taking(machine: PartitionMachine) -> float:
    """The longest hold in seconds."""
    pulse = Pulse()
    await asyncio.sleep(0)
    encode = machine.freeze()
    await _on_thread(lambda: _write(encode()))
    return pulse.end()


async def installing(data: bytes) -> float:
    """It arrives in chunks, and replaces a state of the same size."""
    machine = PartitionMachine(_describe)
    machine.restore(data)
    meta = SnapshotMeta(1, 1, 1, 1, Configuration(), len(data))
    decoded: list[object] = []
    pulse = Pulse()
    await asyncio.sleep(0)
    incoming = IncomingSnapshot(SnapshotChunk(1, 2, 1, meta, 0, b""))
    for at in range(0, len(data), SNAPSHOT_CHUNK_BYTES_MAX):
        incoming.add(SnapshotChunk(1, 2, 1, meta, at, data[at : at + SNAPSHOT_CHUNK_BYTES_MAX]))
        await asyncio.sleep(0)
    received = tuple(incoming.pieces)
    await _on_thread(lambda: decoded.append(machine.decode(received)))
    remains = machine.restore(received, decoded.pop())
    await _on_thread(Discard(remains).run)
    held_s = pulse.end()
    # The machine is a cycle, and its end is not part of this.
    Discard(machine.restore(b"")).run()
    return held_s


def measure(options: BenchOptions) -> list[Figure]:
    share = 10 if options.quick else 1
    machines = {
        "1,000,000 failed messages": with_failures(_FAILED // share),
        "200,000 producers of one batch": with_producers(_PRODUCERS // share),
    }
    interval_s, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    figures = []
    try:
        for name, machine in machines.items():
            data = machine.snapshot()
            works: dict[str, Callable[[], float]] = {
                "taking": lambda machine=machine: asyncio.run(taking(machine)),
                "installing": lambda data=data: asyncio.run(installing(data)),
            }
            for verb, work in works.items():
                pairs = [(1_000 * work(), HELD_MS_MAX) for _ in range(options.rounds)]
                title = f"loop held while {verb} a snapshot with {name}"
                goal = Goal(1.0, at_most=True)
                figures.append(relate(AREA, title, "ms", pairs=pairs, probe_name="allowed", goal=goal))
    finally:
        sys.setswitchinterval(interval_s)
        gc.set_threshold(*thresholds)
        gc.unfreeze()
    return figures


def main() -> None:
    """Prints the figures without the rest of the bench."""
    from pathlib import Path

    for figure in measure(BenchOptions(Path(), quick="--quick" in sys.argv)):
        print(f"{figure.name}: {figure.value:.1f} {figure.unit} (ratios {figure.spread}), met: {figure.is_met}")


if __name__ == "__main__":
    main()
