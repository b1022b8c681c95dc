"""A scrape of a real node: every metric of the table, with the labels and values that it promises."""

from pathlib import Path

import pytest

from flotilla.broker.observability.scrape import _SLICE
from flotilla.metadata.values import FIRST_PARTITION_GROUP
from flotilla.raft.roles import FOLLOWER, LEADER
from flotilla.runtime.observability import process_usage as usage
from flotilla.runtime.observability.metrics import METRICS, STATE_DAMAGED
from flotilla.types.errors import DiskFullError, FlotillaError, NotFoundError
from flotilla.types.operations import Fetch, Fetched, Produce, Produced, Reply
from flotilla.types.operations.queue import Delivery, GroupDescription, Poll, Polled
from tests.unit.broker.single_node import ABSENT, SingleNode, run
from tests.unit.partition.batches import batch
from tests.unit.runtime.exposition import Family, check_histogram, parse


async def scrape(single: SingleNode) -> dict[str, Family]:
    return parse((await single.status.metrics()).decode())


def values(families: dict[str, Family], name: str) -> dict[tuple[str, ...], float]:
    """Samples by the values of their labels."""
    return {tuple(value for _, value in labels): sample for (_, labels), sample in families[name].samples.items()}


def busy(single: SingleNode) -> None:
    """One of everything that a client can cause."""
    single.metered.handle(Produce("orders", 0, batch(count=3)), lambda result: None)
    single.metered.handle(Fetch("orders", 0, 1, 1000), lambda result: None)
    single.service.cancel = lambda: None
    single.metered.handle(Fetch("orders", 0, 3, 1000, wait_ms=10), lambda result: None)
    single.service.cancel = None
    single.metered.handle(Fetch("none", 0, 3, 1000), lambda result: None)
    single.metered.handle(Poll("orders", "workers", "a"), lambda result: None)
    answers: list[Reply | FlotillaError] = [
        Produced(0),
        Fetched([batch(0, count=3)], 0, 3),
        Fetched([], 0, 3),
        NotFoundError("none"),
        Polled([Delivery(0, 1, 0, 4, 1, b""), Delivery(0, 1, 4, 1, 2, b"")]),
    ]
    for (_, done), result in zip(single.service.waiting, answers, strict=True):
        done(result)


class Workers:
    """A partition with one queue group, and one that was deleted a moment ago."""

    retention_behind_ms = 90_000

    def held_messages(self) -> dict[str, int]:
        return {"workers": 7}

    def held_back(self) -> dict[str, int]:
        return {}

    def kept_results(self) -> tuple[int, int]:
        return 2, 600

    def queue_groups(self) -> list[str]:
        return ["gone", "workers"]

    def offset_groups(self) -> list[str]:
        return ["readers"]

    def measure_queue(self, group: str) -> GroupDescription | None:
        if group == "gone":
            return None
        if group == "readers":
            return GroupDescription("offset", 4, 10, 0, 6, 2_500)
        return GroupDescription("queue", 1, 10, 0, 9, 1_500, ready=4, leased=3, delayed=2, dead_total=5, acked_total=6)


def test_every_metric_is_there_with_its_labels(tmp_path: Path) -> None:
    async def test(single: SingleNode) -> None:
        await single.found()
        group, _ = await single.create_topic("orders", 2)
        # A follower that exists on paper only, so that there is a lag to report.
        raft = single.driver.replicas[group].raft
        raft.progress[ABSENT] = type(raft.progress[raft.id])(1)
        raft.forgotten_counts[ABSENT] = 1
        busy(single)
        single.hosts[group] = Workers()
        families = await scrape(single)
        for metric in METRICS:
            samples = families[metric.name].samples
            assert samples, f"{metric.name} has no sample"
            for _, labels in samples:
                assert tuple(name for name, _ in labels if name != "le") == metric.labels
            if metric.kind == "histogram":
                check_histogram(families[metric.name])

    run(tmp_path, test)


def test_requests_of_clients_are_counted(tmp_path: Path) -> None:
    async def test(single: SingleNode) -> None:
        await single.found()
        await single.create_topic("orders", 1)
        busy(single)
        families = await scrape(single)
        assert values(families, "flotilla_messages_produced_total") == {("orders",): 3}
        assert values(families, "flotilla_messages_delivered_total") == {("orders",): 7}
        assert values(families, "flotilla_messages_redelivered_total") == {("orders",): 1}
        assert values(families, "flotilla_request_errors_total") == {("fetch", "NOT_FOUND"): 1}
        counts = {
            dict(labels)["operation"]: count
            for (name, labels), count in families["flotilla_request_seconds"].samples.items()
            if name.endswith("_count") and count
        }
        assert counts == {"produce": 1, "fetch": 2, "fetch_wait": 1, "poll": 1}
        assert values(families, "flotilla_client_connections") == {(): 3}
        # Its report is of 1970.
        ((pipeline, age_s),) = values(families, "flotilla_pipeline_report_age_seconds").items()
        assert set(pipeline) == {"sums", "7a"}
        assert age_s > 1e9
        by_endpoint = {("tcp",): 3, ("http",): 2, ("grpc",): 1}
        assert values(families, "flotilla_connected_clients") == by_endpoint
        assert values(families, "flotilla_client_sent_bytes_total") == {(): 900}
        await single.delete_topic("orders")
        assert values(await scrape(single), "flotilla_messages_produced_total") == {}

    run(tmp_path, test)


def test_queue_groups_report_their_progress(tmp_path: Path) -> None:
    async def test(single: SingleNode) -> None:
        await single.found()
        (group,) = await single.create_topic("orders", 1)
        single.hosts[group] = Workers()
        families = await scrape(single)
        expected = {
            "flotilla_messages_acked_total": 6,
            "flotilla_messages_dead_lettered_total": 5,
            "flotilla_group_lag_messages": 9,
            "flotilla_group_lag_seconds": 1.5,
            "flotilla_queue_ready": 4,
            "flotilla_queue_leased": 3,
            "flotilla_queue_delayed": 2,
        }
        for name, value in expected.items():
            assert values(families, name)["orders", "0", "workers"] == value
        # A group that commits offsets has a lag, and nothing that leases would have.
        assert values(families, "flotilla_group_lag_messages")["orders", "0", "readers"] == 6
        assert values(families, "flotilla_group_lag_seconds")["orders", "0", "readers"] == 2.5
        assert values(families, "flotilla_queue_ready").keys() == {("orders", "0", "workers")}

    run(tmp_path, test)


def test_replicas_report_their_state(tmp_path: Path) -> None:
    async def test(single: SingleNode) -> None:
        await single.found()
        _, group = await single.create_topic("orders", 2)
        single.follow(100)
        single.driver.replicas[group].raft.damaged = [(1, 2)]
        families = await scrape(single)
        assert values(families, "flotilla_raft_state") == {
            ("__metadata", "0"): LEADER,
            ("orders", "0"): LEADER,
            ("orders", "1"): STATE_DAMAGED,
            ("__unassigned", "100"): FOLLOWER,
        }
        assert values(families, "flotilla_replicas") == {
            ("leading",): 2,
            ("following",): 0,
            ("leaderless",): 1,
            ("damaged",): 1,
            ("failed",): 0,
        }
        raft = single.driver.replicas[1].raft
        assert values(families, "flotilla_raft_term")[("__metadata", "0")] == raft.term >= 1
        assert values(families, "flotilla_raft_commit_index")[("__metadata", "0")] == raft.log.committed >= 3
        assert values(families, "flotilla_log_size_bytes")[("__metadata", "0")] > 0

    run(tmp_path, test)


def test_a_replica_gets_its_name_as_soon_as_it_is_known(tmp_path: Path) -> None:
    async def test(single: SingleNode) -> None:
        await single.found()
        await single.lead(FIRST_PARTITION_GROUP)
        assert ("__unassigned", "16") in values(await scrape(single), "flotilla_raft_state")
        assert await single.create_topic("orders", 1) == [FIRST_PARTITION_GROUP]
        assert values(await scrape(single), "flotilla_raft_state").keys() == {("__metadata", "0"), ("orders", "0")}

    run(tmp_path, test)


def test_lag_is_what_the_leader_does_not_know_to_be_there(tmp_path: Path) -> None:
    async def test(single: SingleNode) -> None:
        await single.found()
        raft = single.driver.replicas[1].raft
        progress = raft.progress[ABSENT] = type(raft.progress[raft.id])(1)
        progress.match = raft.log.last_index - 2
        assert values(await scrape(single), "flotilla_raft_replication_lag") == {("__metadata", "0", "2"): 2}
        del raft.progress[ABSENT]
        assert values(await scrape(single), "flotilla_raft_replication_lag") == {}

    run(tmp_path, test)


def test_disk_and_peers_are_measured(tmp_path: Path) -> None:
    async def test(single: SingleNode) -> None:
        await single.found()
        families = await scrape(single)
        assert families["flotilla_fsync_seconds"].samples[("flotilla_fsync_seconds_count", ())] >= 2
        assert values(families, "flotilla_storage_ok") == {(): 1}
        disk = [values(families, f"flotilla_disk_{name}_bytes")[()] for name in ("free", "size")]
        marks = [values(families, f"flotilla_disk_{name}_free_bytes")[()] for name in ("warn", "refuse")]
        assert (disk, marks) == ([60_000, 100_000], [5_000, 1_000])
        assert values(families, "flotilla_storage_errors_total") == {("journal",): 0, ("background",): 0}
        assert values(families, "flotilla_peer_up") == {("2",): 0}
        single.driver.storage_error = DiskFullError("no room")
        assert values(await scrape(single), "flotilla_storage_ok") == {(): 0}

    run(tmp_path, test)


def test_runs_of_the_garbage_collector_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collector = usage.GcPauseTimer()
    monkeypatch.setattr(usage, "GC_PAUSE_TIMER", collector)
    for duration_us in (100, 30_000, 2_000):
        collector.pauses.record(duration_us)

    async def test(single: SingleNode) -> None:
        await single.found()
        families = await scrape(single)
        assert values(families, "flotilla_gc_pause_max_seconds") == {(): 0.03}
        pauses = families["flotilla_gc_pause_seconds"].samples
        assert pauses[("flotilla_gc_pause_seconds_count", ())] == 3
        assert pauses[("flotilla_gc_pause_seconds_sum", ())] == pytest.approx(0.0321)

    run(tmp_path, test)


def test_a_scrape_of_many_replicas_gives_way_and_survives_changes(tmp_path: Path) -> None:
    async def test(single: SingleNode) -> None:
        await single.found()
        for group in range(1000, 1000 + 2 * _SLICE):
            single.follow(group)
        scraping = single.status.metrics()
        # By hand: up to its first turn for others.
        scraping.send(None)
        single.driver.remove_replica(1000 + 2 * _SLICE - 1)
        single.follow(9999)
        families = parse((await single.status.metrics()).decode())
        assert len(values(families, "flotilla_raft_state")) == 2 * _SLICE + 1
        text = b""
        try:
            while True:
                scraping.send(None)
        except StopIteration as end:
            text = end.value
        assert len(values(parse(text.decode()), "flotilla_raft_state")) == 2 * _SLICE

    run(tmp_path, test)
