"""`python -m tests.attacks [--seconds N] [--turns N]`: an honest client beside each attack on one node.

The honest client stores messages of 200 bytes, one at a time, and opens a new connection for `/health` each time. Every
attack is made by a process of its own, with a low priority, as if it were another machine; before each of its turns the
honest client is measured without it. An attack has failed when the 99th percentile of its messages and that of its
probes are within three times those of the quiet turns, memory within 600 MiB of what it was before, and every probe was
answered. The exit code is 1 when one has not.

Three times has a floor of 50 ms for messages and 100 ms for probes: the 99th percentile of a quiet turn is that of a
few hundred samples, and often a few milliseconds, of which three times is within what the machine does by itself.
"""

import argparse
import multiprocessing
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple
from urllib.request import urlopen

from flotilla import Client
from tests.attacks.attacks import ATTACKS, LASTING, Ports, run
from tests.integration.ports import LOOPBACK, free_ports

MEMORY_MIB_MAX: Final = 600
#: Below it a difference of latencies means nothing: of messages, and of probes, each with a connection of its own.
_P99_MS_MIN: Final = 50
_PROBE_MS_MIN: Final = 100
#: For an attack that has been given up, and for what it left behind.
_REST_S: Final = 1


class Node:
    def __init__(self, folder: Path) -> None:
        self.ports = Ports(*free_ports(4))
        self.log = (folder / "node.log").open("wb")
        names = {"listen": "tcp", "peer-listen": "peer", "http-listen": "http", "grpc-listen": "grpc"}
        flags = [f"--{flag}={LOOPBACK}:{getattr(self.ports, port)}" for flag, port in names.items()]
        serve = (sys.executable, "-m", "flotilla.cli", "serve", "--auto-create-topics")
        self.process = subprocess.Popen(
            [*serve, "--data-dir", str(folder / "data"), *flags], stdout=self.log, stderr=self.log
        )

    @property
    def memory_mib(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) // 1024

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.log.close()


class Turn(NamedTuple):
    took_s: list[float]
    probes_s: list[float]
    errors: int
    memory_mib: int


def honest(node: Node, client: Client, seconds: float) -> Turn:
    took: list[float] = []
    probes: list[float] = []
    errors = peak = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        begun = time.monotonic()
        try:
            client.produce("honest", bytes(200))
            probed = time.monotonic()
            took.append(probed - begun)
            with urlopen(f"http://{LOOPBACK}:{node.ports.http}/health", timeout=5) as answer:
                errors += answer.status != 200
            probes.append(time.monotonic() - probed)
        except Exception:
            errors += 1
        peak = max(peak, node.memory_mib)
        time.sleep(0.01)
    return Turn(took, probes, errors, peak)


def percentile_ms(samples: list[list[float]], share: float) -> float:
    took = sorted(each for turn in samples for each in turn)
    return 1000 * took[int(len(took) * share)] if took else float("inf")


def measured(node: Node, name: str, seconds: float, turn_count: int) -> bool:
    """Whether the attack has failed."""
    quiet: list[Turn] = []
    attacked: list[Turn] = []
    spawning = multiprocessing.get_context("spawn")
    with Client(f"{LOOPBACK}:{node.ports.tcp}", timeout_ms=60_000) as client:
        client.produce("honest", bytes(200))
        before_mib = node.memory_mib
        for _ in range(1 if name in LASTING else turn_count):
            quiet.append(honest(node, client, seconds))
            ready = spawning.Event()
            attacker = spawning.Process(target=run, args=(name, node.ports, seconds, ready))
            attacker.start()
            ready.wait()
            attacked.append(honest(node, client, seconds))
            attacker.join(seconds)
            if attacker.exitcode:
                raise AssertionError(f"the attack was not made: {name}")
            attacker.kill()
            attacker.join()
            time.sleep(_REST_S)
    took = [turn.took_s for turn in attacked]
    p99_ms, quiet_ms = percentile_ms(took, 0.99), percentile_ms([turn.took_s for turn in quiet], 0.99)
    probe_ms = percentile_ms([turn.probes_s for turn in attacked], 0.99)
    probe_ms_max = max(3 * percentile_ms([turn.probes_s for turn in quiet], 0.99), _PROBE_MS_MIN)
    errors = sum(turn.errors for turn in attacked)
    memory_mib = max(turn.memory_mib for turn in attacked)
    is_served = p99_ms <= max(3 * quiet_ms, _P99_MS_MIN) and probe_ms <= probe_ms_max and not errors
    is_well = is_served and memory_mib <= before_mib + MEMORY_MIB_MAX
    print(
        f"{name:22} {percentile_ms(took, 0.5):8.1f} {p99_ms:8.1f} {quiet_ms:12.1f} {probe_ms:12.1f} {errors:7}"
        f" {memory_mib - before_mib:+11} {'' if is_well else 'TOO MUCH'}",
        flush=True,
    )
    return is_well


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attacks")
    parser.add_argument("--seconds", type=float, default=5, help="of each turn")
    parser.add_argument("--turns", type=int, default=2, help="with each attack, and as many without")
    parser.add_argument("--only", choices=ATTACKS, help="one attack")
    options = parser.parse_args()
    if shutil.which("slowhttptest") is None:
        print("slowhttptest is not installed (apt-get install slowhttptest): its attacks are left out")
    names = [name for name in ATTACKS if shutil.which("slowhttptest") or not name.startswith("slow")]
    heads = ("p50 ms", 8), ("p99 ms", 8), ("quiet p99 ms", 12), ("probe p99 ms", 12), ("errors", 7), ("memory MiB", 11)
    print(f"{'attack':22}", *[f"{head:>{width}}" for head, width in heads])
    with tempfile.TemporaryDirectory() as folder:
        node = Node(Path(folder))
        try:
            chosen = [options.only] if options.only else names
            results = [measured(node, name, options.seconds, options.turns) for name in chosen]
        finally:
            node.end()
    return 0 if all(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
