"""The TypeScript client beside the Python client: messages of 100 bytes, sent without waiting for each, then drained.

Both speak the same protocol to the same broker, one after the other, each to a topic of its own with one partition.
"""

import json
import subprocess
import time
from itertools import count as numbers

from bench.figure import Absence, Figure, Goal, relate
from bench.options import BenchOptions
from bench.parts.node_cluster import ROOT
from flotilla.cli.bench.probes import scratch
from flotilla.cli.local_cluster import LocalCluster
from flotilla.client.client import Client

AREA = "typescript"
PROGRAM = ROOT / "sdks" / "typescript" / "build" / "bench.js"
RATIO_MIN = 0.5
_PAYLOAD = b"x" * 100


def _python(client: Client, topic: str, count: int) -> tuple[float, float]:
    """Messages a second: produced, drained."""
    client.create_topic(topic, partitions=1)
    client.produce(topic, _PAYLOAD)
    with client.producer(topic) as producer:
        begun = time.perf_counter()
        for _ in range(count):
            producer.send(_PAYLOAD)
        producer.flush()
        produced = count / (time.perf_counter() - begun)
    with client.queue(topic, "drain") as queue:
        begun = time.perf_counter()
        for left, message in zip(range(count, -1, -1), queue, strict=False):
            message.ack(wait=False)
            if not left:
                break
        queue.flush()
        return produced, count / (time.perf_counter() - begun)


def _typescript(address: str, topic: str, count: int) -> tuple[float, float]:
    done = subprocess.run(
        ["node", str(PROGRAM), address, topic, str(count)], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    return found["producedPerS"], found["drainedPerS"]


def measure(options: BenchOptions) -> list[Figure | Absence]:
    if not PROGRAM.exists():
        return [Absence(AREA, "the client", "it is not built here: make sdks")]
    count = options.pick(quick=20_000, full=200_000)
    rounds: list[tuple[tuple[float, float], tuple[float, float]]] = []
    with scratch(options.folder, AREA) as folder:
        cluster = LocalCluster.on_free_ports(folder / "nodes", node_count=1)
        with cluster, Client(cluster.servers) as client:
            cluster.start_ready()
            for number in numbers(1):
                python = _python(client, f"python-{number}", count)
                rounds.append((_typescript(cluster.servers[0], f"typescript-{number}", count), python))
                if number == options.rounds:
                    break
    return [
        relate(
            AREA,
            f"{name} x1, 100 B",
            "msg/s",
            pairs=[(subject[at], probe[at]) for subject, probe in rounds],
            probe_name="the Python client",
            goal=Goal(RATIO_MIN),
        )
        for at, name in enumerate(("produce", "drain"))
    ]
