"""A producer and a worker in processes of their own carry out orders, and every message has a duration."""

import multiprocessing
import os

import pytest

from bench.peers.apart import Arrivals, Pair, Turns

pytestmark = pytest.mark.slow


def produce(folder: str, queue: str, turns: Turns) -> None:
    with open(f"{folder}/{queue}", "wb", buffering=0) as pipe:
        for turn in turns:
            for payload in turn.payloads():
                pipe.write(payload)


def work(folder: str, queue: str, arrivals: Arrivals) -> None:
    arrivals.begin()
    with open(f"{folder}/{queue}", "rb", buffering=0) as pipe:
        while payload := pipe.read(100):
            arrivals.note(payload)


def test_orders_come_one_after_the_other(tmp_path: os.PathLike[str]) -> None:
    os.mkfifo(f"{tmp_path}/jobs")
    with Pair(produce, work, str(tmp_path), "jobs") as pair:
        for durations in (pair.paced(100, 2_000, 100), pair.one_by_one(100, 50), pair.paced(100, 2_000, 20)):
            assert min(durations) > 0
            assert len(durations) in (100, 50, 20)
        assert pair.busy_s() > 0
    assert multiprocessing.active_children() == []


def fail(folder: str, queue: str, arrivals: Arrivals) -> None:
    raise SystemExit(3)


def test_a_worker_that_ends_is_reported(tmp_path: os.PathLike[str]) -> None:
    os.mkfifo(f"{tmp_path}/jobs")
    with pytest.raises(RuntimeError, match="the worker ended"), Pair(produce, fail, str(tmp_path), "jobs"):
        pass
    assert multiprocessing.active_children() == []
