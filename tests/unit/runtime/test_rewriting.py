"""Copies of segments with their repaired entries in place, on a disk that does not return the old segment."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from flotilla.raft.messages import DATA, Append, Entry, RepairReply
from flotilla.sim.devices.disk import SimDisk
from flotilla.sim.ledger.machine import command
from flotilla.storage.ports import Buffer, File
from flotilla.types.errors import CorruptionError, StorageFailedError
from tests.unit.runtime.test_driver import THREE, Bench

MENDED, OTHER = 1, 2


def entry(index: int) -> Entry:
    return Entry(index, 1, DATA, command(index, 1_000))


class HangsError(Exception):
    """Stands for a thread that never comes back."""


@dataclass
class SlowFile:
    """A file whose reads do not return, or fail."""

    file: File
    error: Exception

    def read(self, offset: int, length: int) -> bytes:
        raise self.error

    def read_cached(self, offset: int, length: int) -> Buffer | None:
        return None

    def __getattr__(self, name: str) -> object:
        return getattr(self.file, name)


def append(bench: Bench, group: int, indexes: Sequence[int]) -> None:
    term = 1 if indexes[0] > 1 else 0
    bench.driver.receive([(group, Append(2, 1, 1, indexes[0] - 1, term, indexes[-1], [*map(entry, indexes)]))])
    bench.driver.pump()


def flush(bench: Bench) -> None:
    job = bench.store.plan_maintenance(flush=True)
    assert job is not None
    job.run()
    bench.store.finish_maintenance(job)
    bench.settle()


def slow_down(bench: Bench, path: str, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the file does not return a read."""
    original = SimDisk.open

    def opened(disk: SimDisk, opened_path: str, *, create: bool = False) -> File:
        file = original(disk, opened_path, create=create)
        return SlowFile(file, error) if opened_path == path else file  # type: ignore[return-value]

    monkeypatch.setattr(SimDisk, "open", opened)


def mended(error: Exception, monkeypatch: pytest.MonkeyPatch) -> tuple[Bench, str]:
    """A follower's segment of ten entries has lost one, which came back; then the file fails. Returns its path too."""
    bench = Bench(THREE, groups=2)
    append(bench, MENDED, range(1, 11))
    append(bench, OTHER, range(1, 11))
    bench.settle()
    flush(bench)
    log = bench.store.groups[MENDED]
    path = log.segments[0].path
    image = next(inode.image for name, inode in bench.disk.files() if name == path)
    image[image.index(entry(5).data)] ^= 1
    with pytest.raises(CorruptionError):
        log.entries(5, 6, 1 << 20)
    bench.tick(1)
    bench.settle()
    slow_down(bench, path, error, monkeypatch)
    bench.driver.receive([(MENDED, RepairReply(3, 1, 0, 5, [entry(5)]))])
    bench.driver.pump()
    return bench, path


def work(bench: Bench) -> None:
    """Blocks and background jobs go on; loads do not return."""
    while bench.blocks or bench.jobs:
        if bench.blocks:
            bench.finish_block()
        bench.finish_jobs()


def test_a_segment_that_hangs_holds_up_no_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as hanging:
        bench, path = mended(HangsError(), hanging)
        journal = bench.disk.list("journal")
        for first in range(11, 411, 10):
            append(bench, OTHER, range(first, first + 10))
            work(bench)
        assert bench.store.groups[OTHER].durable_index > 300
        assert set(journal) & set(bench.disk.list("journal")) <= {"reserve"}, "its files are recycled"
        [load] = bench.loads
        assert (load.group, load.path) == (MENDED, path)
        bench.tick(30)
        assert bench.driver.stalled == {MENDED: path}
        assert bench.driver.replicas[MENDED].raft.damaged == []
    # The disk returns the file at last.
    bench.finish_loads()
    bench.settle()
    assert bench.driver.stalled == {}
    assert not bench.disk.exists(path)
    assert not bench.store.groups[MENDED].overlay
    bench.restart()
    for group, last in ((MENDED, 10), (OTHER, 410)):
        entries = bench.store.groups[group].entries(1, last + 1, 1 << 20)
        assert [one.data for one in entries] == [entry(index).data for index in range(1, last + 1)]


def test_a_segment_that_cannot_be_read_is_reported_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    error = StorageFailedError("read failed")
    with monkeypatch.context() as failing:
        bench, path = mended(error, failing)
        work(bench)
        bench.finish_loads()
        assert bench.driver.background_error is error
        assert bench.loads == [], "not at once"
        bench.tick(3)
        assert [load.path for load in bench.loads] == [path]
    bench.settle()
    assert not bench.disk.exists(path)
    assert [name for name in bench.disk.list("groups/1") if name.endswith(".seg")] == [
        bench.store.groups[MENDED].segments[0].path.rpartition("/")[2]
    ], "nothing is left of the attempt that failed"
