"""`flotilla bench` against a real cluster: every figure, no topic left, no broker stopped."""

import json
from contextlib import suppress
from pathlib import Path

import pytest

from flotilla import Client
from flotilla.cli.bench import command as bench
from flotilla.cli.bench import hand_over
from flotilla.cli.demo.ledger import Ledger, Place
from flotilla.cli.local_cluster import LocalCluster
from flotilla.types.errors import NotFoundError
from flotilla.types.operations.cluster import LEADER
from tests.integration.testing.waiting import eventually
from tests.unit.cli.test_progress import attached

pytestmark = pytest.mark.slow


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same work, less of it."""
    monkeypatch.setattr(bench, "_SINGLES", 100)
    monkeypatch.setattr(bench, "_PIPELINED", 500)
    monkeypatch.setattr(bench, "_BULK", 1_000)
    monkeypatch.setattr(bench, "_PROBE_BYTES", 1_000_000)
    monkeypatch.setattr(bench, "_HAND_OVERS", 2)
    monkeypatch.setattr(hand_over, "_STEADY_S", 0.2)


async def read_nothing(client: object, topic: str, ledger: Ledger) -> None:
    pass


async def read_twice(client: object, topic: str, ledger: Ledger) -> None:
    for number, place in ledger.acknowledged.items():
        ledger.note_read(number, place)
        ledger.note_read(number, Place(place.partition, 1_000_000 + place.offset))


def leader(client: Client, topic: str) -> int:
    """A broker that lags behind does not know the topic yet."""

    def look() -> int:
        with suppress(NotFoundError):
            return next(each.node for each in client.admin.describe_replicas(topic, 0).replicas if each.role == LEADER)
        return 0

    return eventually(look)


def test_every_figure_is_there_and_nothing_is_left(flotilla, cluster: LocalCluster, small):
    processes = {node: each.pid for node, each in cluster.nodes.items()}
    result = flotilla("bench", "--payload-bytes", "100", "--json")
    assert result.stderr == ""
    found = json.loads(result.stdout)
    assert [row["workload"] for row in found["workloads"]] == [*bench._PROBES, *bench._WORKLOADS]
    assert all(row["rate"] or row["p99_ms"] for row in found["workloads"])
    moved = found["hand_overs"]
    assert (moved["count"], moved["lost"], moved["doubled"]) == (2, 0, 0)
    assert moved["acknowledged"] > 0
    assert 0 < moved["gap_p50_ms"] <= moved["gap_longest_ms"]
    # A broker that lags may show for a moment what is gone.
    eventually(lambda: json.loads(flotilla("topic", "list", "--json").stdout) == [])
    assert {node: each.pid for node, each in cluster.nodes.items()} == processes
    assert len(cluster.running) == 3


def test_a_terminal_shows_the_progress(cluster: LocalCluster, small, monkeypatch: pytest.MonkeyPatch, capsys):
    terminal = attached(monkeypatch)
    bench.bench(servers=",".join(cluster.servers), payload_bytes=[100], data=Path(), as_json=False)
    shown = terminal.getvalue()
    for done, name in enumerate([*bench._PROBES, *bench._WORKLOADS]):
        assert f"{name}, 100 B" in shown
        assert f"{done}/8" in shown
    # The last one is the last of them all.
    assert "handing leadership over" in shown
    assert "7/8" in shown
    assert "8/8" not in shown
    assert "leadership handed over" in capsys.readouterr().out


def test_leadership_goes_to_another_node(cluster: LocalCluster, small):
    with Client(cluster.servers) as client:
        client.create_topic("moved", partitions=1)
        before = leader(client, "moved")
        measured = hand_over.measure_hand_overs(cluster.servers, "moved", 1)
        assert leader(client, "moved") != before
        stored = client.find_offset("moved", 0, "latest")
        assert measured.acknowledged <= stored <= measured.acknowledged + measured.refused
    assert measured.is_good


@pytest.mark.parametrize(("read_back", "is_lost"), [(read_nothing, True), (read_twice, False)])
def test_lost_and_doubled_messages_are_counted(cluster, small, monkeypatch, read_back, is_lost):
    monkeypatch.setattr(hand_over, "_read_back", read_back)
    topic = read_back.__name__
    with Client(cluster.servers) as client:
        client.create_topic(topic, partitions=1)
    found = hand_over.measure_hand_overs(cluster.servers, topic, 1)
    assert (found.lost, found.doubled) == ((found.acknowledged, 0) if is_lost else (0, found.acknowledged))
    assert not found.is_good


def test_one_replica_cannot_hand_over(cluster: LocalCluster):
    with Client(cluster.servers) as client:
        alone = client.create_topic("alone", partitions=1, replication_factor=1)
        assert bench._hand_overs(cluster.servers, alone) is None
