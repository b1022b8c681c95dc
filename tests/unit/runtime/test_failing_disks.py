"""The pump on a disk that fails: nothing is acknowledged, blocks and jobs are tried again, once at a time."""

import pytest

from flotilla.sim.ledger.machine import command
from flotilla.storage.snapshots import SnapshotJob
from flotilla.types.errors import DiskFullError, FlotillaError, OutcomeUnknownError, StorageFailedError
from tests.unit.runtime.test_driver import ALONE, Bench


def test_a_failing_disk_acknowledges_nothing_and_goes_on_when_there_is_space():
    bench = Bench(ALONE)
    bench.elect()
    bench.driver.propose(1, command(1), "lost or not")
    bench.driver.pump()
    bench.finish_block(DiskFullError("no room"))
    assert [(token, type(result)) for token, result in bench.replies] == [("lost or not", OutcomeUnknownError)]
    assert bench.driver.storage_error.code == "DISK_FULL"
    bench.driver.propose(1, command(4), "refused")
    bench.driver.pump()
    assert isinstance(bench.replies[-1][1], DiskFullError)
    assert bench.blocks == []
    bench.tick(3)
    assert len(bench.blocks) == 1, "the same block is tried again"
    bench.settle()
    assert bench.driver.storage_error is None
    bench.elect()
    bench.driver.propose(1, command(5), "done")
    bench.settle()
    assert bench.replies[-1][0] == "done"
    assert not isinstance(bench.replies[-1][1], FlotillaError)


def test_a_block_that_is_being_tried_again_is_not_written_twice():
    bench = Bench(ALONE)
    bench.elect()
    bench.driver.propose(1, command(1), "unknown")
    bench.driver.pump()
    bench.disk.fail_next_write(2)
    for _ in range(2):
        # Each failure costs a file of the journal: after two of them a spare one is made beside the next attempt.
        block = bench.blocks.pop()
        with pytest.raises(StorageFailedError) as failure:
            bench.store.write_block(block)
        bench.driver.block_written(block, failure.value)
        bench.tick(3)
    assert len(bench.blocks) == 1, "the same block is tried again"
    assert len(bench.jobs) == 1
    bench.driver.job_done(bench.jobs.pop(), DiskFullError("no room"))
    bench.tick(3)
    assert len(bench.jobs) == 1, "the job is tried again"
    assert len(bench.blocks) == 1, "the block is still being written"
    bench.settle()
    assert bench.driver.storage_error is None


def test_failing_background_work_is_reported_until_it_succeeds():
    bench = Bench(ALONE, snapshot_entries=5)
    bench.elect()
    for number in range(8):
        bench.driver.propose(1, command(number), number)
    bench.driver.pump()
    while bench.blocks:
        bench.finish_block()
    failing = [job for job in bench.jobs if isinstance(job, SnapshotJob)]
    assert failing
    bench.jobs = [job for job in bench.jobs if job not in failing]
    bench.driver.job_done(failing[0], DiskFullError("full"))
    assert bench.driver.background_error is not None
    assert bench.driver.background_error.code == "DISK_FULL"
    assert bench.driver.storage_error is None, "what is acknowledged is safe"
    for number in range(60):
        bench.driver.propose(1, command(number), number)
        bench.tick(1)
        bench.settle()
    assert bench.driver.background_error is None
    assert bench.store.groups[1].snapshot() is not None
