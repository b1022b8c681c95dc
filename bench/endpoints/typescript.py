"""The TypeScript client beside others: messages of 100 bytes, sent without waiting for each, then drained.

The Python client speaks the same protocol to the same broker, each to a topic of its own with one partition. NATS and
RabbitMQ are measured with their own clients for Node, where they are installed: one node that syncs before it confirms.
All take turns.
"""

import json
import shutil
import subprocess
import time
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

from bench.figure import Absence, Figure, Goal, relate
from bench.options import BenchOptions
from bench.parts.node_cluster import ROOT
from bench.peers.nats import NatsPeer, NatsSubject
from bench.peers.rabbitmq import RabbitPeer, RabbitSubject
from flotilla.cli.bench.probes import scratch
from flotilla.cli.local_cluster import LocalCluster
from flotilla.client.client import Client

AREA = "typescript"
PROGRAM = ROOT / "sdks" / "typescript" / "build" / "bench.js"
PEERS: tuple[NatsPeer | RabbitPeer, ...] = (NatsPeer(), RabbitPeer())
PEER_PROGRAM = Path(__file__).parents[1] / "peers" / "javascript"
#: At least, of the Python client and of the peers.
RATIO_MIN = 0.5
PEER_RATIO_MIN = 2.0
Rates = tuple[float, float]
_PAYLOAD = b"x" * 100


def _python(client: Client, count: int, topic: str) -> Rates:
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


def _node(*command: str) -> Rates:
    done = subprocess.run(["node", *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} failed: {done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    return found["producedPerS"], found["drainedPerS"]


def _peer(program: str, product: str, server: str, count: int, topic: str) -> Rates:
    return _node(program, product, server, topic, str(count))


def measure(options: BenchOptions) -> list[Figure | Absence]:
    if not PROGRAM.exists():
        return [Absence(AREA, "the client", "it is not built here: make sdks")]
    count = options.pick(quick=20_000, full=200_000)
    found: list[Figure | Absence] = []
    with scratch(options.folder, AREA) as folder, ExitStack() as stack:
        cluster = stack.enter_context(LocalCluster.on_free_ports(folder / "nodes", node_count=1))
        client = stack.enter_context(Client(cluster.servers))
        cluster.start_ready()
        turns = {"the Python client": partial(_python, client, count)}
        found += _start_peers(options, folder, count, stack, turns)
        rounds: list[tuple[Rates, dict[str, Rates]]] = []
        for number in range(options.contest_rounds):
            others = {name: turn(f"other-{number}") for name, turn in turns.items()}
            rounds.append((_node(str(PROGRAM), cluster.servers[0], f"own-{number}", str(count)), others))
    for probe in turns:
        goal = Goal(RATIO_MIN if probe == "the Python client" else PEER_RATIO_MIN)
        for at, name in enumerate(("produce", "drain")):
            pairs = [(own[at], others[probe][at]) for own, others in rounds]
            found.append(relate(AREA, f"{name} x1, 100 B", "msg/s", pairs=pairs, probe_name=probe, goal=goal))
    return found


def _start_peers(
    options: BenchOptions, folder: Path, count: int, stack: ExitStack, turns: "dict[str, partial[Rates]]"
) -> list[Figure | Absence]:
    """Adds the turns of the peers that are here; the others are returned."""
    programs = folder / "javascript"
    shutil.copytree(PEER_PROGRAM, programs)
    install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]
    installed = subprocess.run(install, cwd=programs, capture_output=True, text=True, check=False)
    absent: list[Figure | Absence] = []
    for peer in PEERS:
        if options.peers is not None and peer.product not in options.peers:
            continue
        missing = peer.missing() or ("" if installed.returncode == 0 else "npm cannot install its client")
        if missing:
            absent.append(Absence(AREA, peer.product, missing))
            continue
        own = folder / peer.product
        own.mkdir()
        started: AbstractContextManager[NatsSubject | RabbitSubject] = peer.started(own, nodes=1, is_synced=True)
        subject = stack.enter_context(started)
        program = str(programs / "measure.mjs")
        turns[f"{peer.product} for Node"] = partial(_peer, program, peer.product, subject.servers[0], count)
    return absent
