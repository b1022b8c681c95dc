"""Reading from followers: the rate of three replicas of a partition beside its leader alone, in separate processes.

Readers request little at a time and drop the answers, so that two processors are enough to load the brokers.
With large answers the copying in the kernel, on both sides, is most of the work.
"""

import json
import os
import subprocess
import sys
import time

from bench.figure import Figure, Goal, relate
from bench.options import BenchOptions
from bench.parts.node_cluster import ROOT
from bench.scale.cluster import ScaleCluster, started
from flotilla.cli.bench.probes import scratch
from flotilla.client.client import Client
from flotilla.types.errors import FlotillaError

AREA = "readers"
READERS = 3
#: As far as two processors allow.
RATIO_MIN = 1.5
_TOPIC = "read"
_PAYLOAD_BYTES = 100
_WAIT_S_MAX = 60.0


def _fill(client: Client, count: int) -> None:
    client.create_topic(_TOPIC, partitions=1)
    with client.producer(_TOPIC, batch_records=20) as producer:
        for number in range(count):
            producer.send(number.to_bytes(8, "big") + bytes(_PAYLOAD_BYTES - 8))


def _wait_replicas(client: Client, count: int) -> None:
    """Until every replica serves everything."""
    deadline = time.monotonic() + _WAIT_S_MAX
    for _ in range(READERS):
        while True:
            try:
                reader = client.reader(_TOPIC, offset=count - 1, read_from="spread", linearizable=True)
                found = reader.poll(1, wait_ms=5_000)
                reader.close()
                if found:
                    break
            except FlotillaError:
                pass
            if time.monotonic() > deadline:
                raise TimeoutError("the replicas do not keep up")


def _rate(addresses: list[str], count: int, seconds: float) -> float:
    """Bytes a second that readers get from these brokers together."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    readers = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.cluster.lean_reader", address, _TOPIC, str(count), str(seconds)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for address in addresses
    ]
    # Long enough for all to have connected; they begin together.
    time.sleep(1.0)
    for reader in readers:
        assert reader.stdin is not None
        reader.stdin.write("\n")
        reader.stdin.flush()
    found = [json.loads(reader.communicate()[0])["bytes_per_s"] for reader in readers]
    return float(sum(found))


def _measure(scaled: ScaleCluster, options: BenchOptions) -> Figure:
    count = options.pick(quick=20_000, full=100_000)
    seconds = options.pick(quick=2, full=5)
    client = scaled.client
    _fill(client, count)
    _wait_replicas(client, count)
    metadata = client.admin.metadata([_TOPIC])
    addresses = {broker.node: broker.client for broker in metadata.brokers}
    part = metadata.topics[0].partitions[0]
    at_leader = [addresses[part.leader]] * READERS
    at_replicas = [addresses[node] for node in part.replicas]
    scaled.wait_at_rest()
    _rate(at_replicas, count, 1)
    pairs = []
    for _ in range(options.rounds):
        alone = _rate(at_leader, count, seconds)
        pairs.append((_rate(at_replicas, count, seconds), alone))
    return relate(
        AREA,
        f"{READERS} readers at {READERS} replicas",
        "B/s",
        pairs=pairs,
        probe_name="all at the leader",
        goal=Goal(RATIO_MIN),
    )


def measure(options: BenchOptions) -> list[Figure]:
    with scratch(options.folder, "readers") as folder, started(folder / "nodes") as scaled:
        return [_measure(scaled, options)]
