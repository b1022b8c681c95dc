"""A failure in the code of one group cuts that group off; the others of the node go on."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flotilla.raft.messages import Append, AppendReply, Entry, Heartbeat
from flotilla.runtime.driver import Driver
from flotilla.sim.ledger.machine import command
from flotilla.storage.posix import PosixDisk
from flotilla.storage.store import NodeStore
from flotilla.types.errors import StorageFailedError
from flotilla.types.records import Span
from tests.unit.runtime.test_driver import ALONE, SMALL, THREE, Bench, lead_with_entries


class Planted:
    """An object of which one method raises."""

    def __init__(self, inner: Any, name: str, failure: Exception) -> None:
        self._inner = inner
        self._name = name
        self._failure = failure

    def __getattr__(self, name: str) -> Any:
        if name == self._name:
            raise self._failure
        return getattr(self._inner, name)


def bench_of_two(configuration: Any = ALONE) -> Bench:
    bench = Bench(configuration, groups=2, snapshot_entries=3)
    bench.is_containing = True
    if configuration is ALONE:
        bench.elect()
    return bench


def check_rest_works(bench: Bench) -> None:
    """Group 1 is cut off, and group 2 stores, commits and survives."""
    driver: Driver = bench.driver
    assert list(driver.failed) == [1]
    assert list(driver.replicas) == [2]
    driver.tick()
    bench.settle()
    before = len(bench.machines[2].commands)
    driver.propose(2, command(99), "after")
    bench.settle()
    assert ("after",) in [(token,) for token, _ in bench.replies]
    assert len(bench.machines[2].commands) == before + 1
    bench.restart()
    assert list(bench.driver.replicas) == [1, 2]


@pytest.mark.parametrize("failure", [ZeroDivisionError("a bug"), AssertionError(), StorageFailedError("open: EMFILE")])
@pytest.mark.parametrize("method", ["step", "tick", "ready", "has_ready", "advance", "peer_up", "peer_down"])
def test_consensus_of_one_group(method: str, failure: Exception) -> None:
    bench = bench_of_two()
    raft: Any = Planted(bench.driver.replicas[1].raft, method, failure)
    bench.driver.replicas[1].raft = raft
    bench.driver.propose(1, command(1), "lost")
    bench.settle()
    bench.driver.receive([(1, Heartbeat(2, 1, 1, 0))])
    bench.driver.tick()
    bench.driver.peer_up(2)
    bench.driver.peer_down(2)
    bench.settle()
    assert bench.driver.failed == {1: failure}
    check_rest_works(bench)


@pytest.mark.parametrize("span", [ZeroDivisionError("a bug"), Span(-1, 1, 0)])
def test_an_entry_that_cannot_be_described(span: Any) -> None:
    """The header of a batch may say anything: what it says must not end the node."""
    bench = bench_of_two()
    before = bench.store.groups[1].last_index()

    def describe(entry: Entry) -> Span | None:
        if bytes(entry.data) != command(7):
            return None
        if isinstance(span, Exception):
            raise span
        assert isinstance(span, Span)
        return span

    bench.store._describe = describe
    bench.driver.propose(1, command(7), "lost")
    bench.driver.propose(2, command(8), "kept")
    bench.settle()
    assert bench.store.groups[1].last_index() == before
    assert "cannot be described" in str(bench.driver.failed[1])
    check_rest_works(bench)


@pytest.mark.parametrize("method", ["apply", "read", "freeze"])
def test_the_state_machine_of_one_group(method: str) -> None:
    bench = bench_of_two()
    machine: Any = Planted(bench.machines[1], method, ZeroDivisionError("a bug"))
    bench.driver.replicas[1].machine = machine
    bench.driver.read(1, "all", "asked")
    for identity in range(4):
        bench.driver.propose(1, command(identity), identity)
        bench.driver.propose(2, command(identity), identity)
        bench.settle()
        if bench.driver.failed:
            break
    check_rest_works(bench)


def test_what_was_in_flight_when_a_group_is_cut_off_does_no_harm() -> None:
    """Its block is written, its entries and messages are dropped, and after a restart it has what was durable."""
    bench = bench_of_two()
    bench.driver.propose(1, command(1), "one")
    bench.driver.propose(2, command(1), "two")
    bench.driver.pump()
    bench.driver.cut_off(1, ZeroDivisionError("a bug"))
    bench.settle()
    check_rest_works(bench)
    bench.elect()
    assert [len(machine.commands) for machine in bench.machines.values()] == [1, 2]


def test_a_failing_disk_cuts_off_only_the_group_that_cannot_step_down() -> None:
    bench = bench_of_two()
    raft: Any = Planted(bench.driver.replicas[1].raft, "step_down", ZeroDivisionError("a bug"))
    bench.driver.replicas[1].raft = raft
    bench.driver.propose(2, command(1), "refused for now")
    bench.driver.pump()
    bench.finish_block(StorageFailedError("no"))
    assert list(bench.driver.failed) == [1]
    assert list(bench.driver.replicas) == [2]


def test_messages_of_a_group_that_is_cut_off_are_dropped() -> None:
    bench = bench_of_two(THREE)
    bench.settle()
    bench.driver.cut_off(1, ZeroDivisionError("a bug"))
    bench.driver.receive([(1, Heartbeat(2, 1, 5, 0)), (2, Heartbeat(2, 1, 5, 0))])
    bench.settle()
    assert bench.driver.replicas[2].raft.leader == 2


def test_a_failure_of_the_store_leaves_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """All groups share it: there is nothing to cut off."""
    bench = bench_of_two()

    def save(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(bench.store, "save", save)
    bench.driver.propose(1, command(1), "token")
    with pytest.raises(ZeroDivisionError):
        bench.driver.pump()


class RealDiskBench(Bench):
    folder = ""

    def _open(self) -> NodeStore:
        self.real_disk = PosixDisk(self.folder)
        return NodeStore.open(self.real_disk, SMALL, lambda entry: None)


@contextmanager
def no_descriptors() -> Iterator[None]:
    """This process can open nothing."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.dup(0)
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_follower_that_lags_waits_while_no_file_can_be_opened(tmp_path: Path) -> None:
    """What it lacks is in a segment. It gets it when the segment can be opened; no group ends."""
    RealDiskBench.folder = str(tmp_path)
    bench = RealDiskBench(THREE)
    raft = lead_with_entries(bench, 300)
    bench.store._loads.close()
    bench.sent.clear()
    refusal = AppendReply(3, 1, raft.term, raft.log.last_index, accepted=False, hint_index=0, hint_term=0)
    with no_descriptors():
        bench.driver.peer_up(3)
        bench.driver.receive([(1, refusal)])
        for _ in range(3):
            bench.tick(1)
            assert bench.loads
            bench.finish_loads()
    assert not [message for _, message in bench.sent if isinstance(message, Append) and message.entries]
    bench.driver.receive([(1, refusal)])
    bench.tick(3)
    bench.finish_loads()
    sent = [
        entry.index
        for to, message in bench.sent
        if isinstance(message, Append) and to == 3
        for entry in message.entries
    ]
    assert sent[:2] == [1, 2]
    bench.store.close()
    bench.real_disk.close()


def test_an_error_of_close_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Network disks return errors from close. The loop closes files, of all groups, to make room for others."""
    RealDiskBench.folder = str(tmp_path)
    bench = RealDiskBench(THREE)
    raft = lead_with_entries(bench, 120)
    segments = bench.store.groups[1].segments
    assert len(segments) > 1
    bench.store._loads.close()
    bench.store._loads._files._files_max = 1
    reported: list[str] = []
    bench.real_disk.on_close_failed = lambda error: reported.append(str(error))
    really_close = os.close

    def close(descriptor: int) -> None:
        really_close(descriptor)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    refusal = AppendReply(3, 1, raft.term, raft.log.last_index, accepted=False, hint_index=0, hint_term=0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "close", close)
        bench.driver.peer_up(3)
        bench.driver.receive([(1, refusal)])
        for _ in range(8):
            bench.tick(1)
            bench.finish_loads()
    assert bench.real_disk.close_failure_count > 0
    assert len(reported) == 1
    assert not bench.driver.failed
    bench.store.close()
    bench.real_disk.close()


def work_through(bench: Bench) -> set[str]:
    """Does the blocks, jobs and loads that wait, once each; returns the codes of what failed."""
    codes: set[str] = set()
    bench.driver.pump()
    for queue, work, done in (
        (bench.blocks, bench.store.write_block, bench.driver.block_written),
        (bench.jobs, lambda job: job.run(), bench.driver.job_done),
        (bench.loads, lambda load: load.run(), bench.driver.load_done),
    ):
        items: list[Any] = queue[:]
        queue.clear()
        for item in items:
            error: StorageFailedError | None = None
            try:
                work(item)
            except StorageFailedError as failure:
                error = failure
                codes.add(failure.code)
            done(item, error)
            bench.driver.pump()
    return codes


def test_a_store_that_can_open_nothing_loses_nothing_and_goes_on(tmp_path: Path) -> None:
    """New files of the journal, segments and snapshots wait for descriptors. What was acknowledged is there."""
    RealDiskBench.folder = str(tmp_path)
    bench = RealDiskBench(ALONE, snapshot_entries=20)
    bench.elect()
    number, codes = 0, set[str]()
    with no_descriptors():
        # A file of the journal is 64 KiB.
        for _ in range(150):
            number += 1
            bench.driver.propose(1, command(number, 1_000), number)
            bench.tick(1)
            codes |= work_through(bench)
    assert codes == {"STORAGE_FAILED"}
    assert not bench.driver.failed
    assert bench.driver.storage_error is not None or bench.driver.background_error is not None
    for _ in range(40):
        bench.tick(1)
        assert not work_through(bench)
    bench.elect()
    bench.driver.propose(1, command(number + 1), number + 1)
    bench.settle()
    acked = {token for token, result in bench.replies if not isinstance(result, Exception)}
    assert number + 1 in acked
    assert len(acked) > 1, "some were stored before the file of the journal was full"
    assert bench.store.groups[1].snapshot() is not None
    bench.store.close()
    bench.real_disk.close()
    bench.restart()
    bench.elect()
    assert acked <= set(bench.machines[1].commands)
    bench.store.close()
    bench.real_disk.close()
