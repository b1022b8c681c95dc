"""`python -m tests.attacks [--seconds N]`: an honest client beside each attack on one node, and the node's memory.

The honest client stores messages of 200 bytes, one at a time, and opens a new connection for `/health` each time. An
attack has failed when the 99th percentile is within three times that of the quiet row (or 50 ms), memory within
600 MiB of it, and every probe was answered. The exit code is 1 when one has not. On a busy machine it says little.
"""

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple
from urllib.request import urlopen

from flotilla import Client
from tests.integration.ports import LOOPBACK, free_ports

MEMORY_MIB_MAX: Final = 600
_GARBAGE_COUNT: Final = 64
_BODY_COUNT: Final = 40
_BODY_BYTES: Final = 17 * 1024 * 1024

Attack = Callable[["Node", float], None]


class Node:
    def __init__(self, folder: Path) -> None:
        self.tcp, self.peer, self.http, self.grpc = free_ports(4)
        self.log = (folder / "node.log").open("wb")
        names = {"listen": self.tcp, "peer-listen": self.peer, "http-listen": self.http, "grpc-listen": self.grpc}
        flags = [f"--{name}={LOOPBACK}:{port}" for name, port in names.items()]
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "flotilla.cli",
                "serve",
                "--auto-create-topics",
                "--data-dir",
                str(folder / "data"),
                *flags,
            ],
            stdout=self.log,
            stderr=self.log,
        )

    @property
    def memory_mib(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) // 1024

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.log.close()


class Row(NamedTuple):
    name: str
    p50_ms: float
    p99_ms: float
    errors: int
    memory_mib: int


def measured(node: Node, name: str, seconds: float, attack: Attack | None) -> Row:
    took: list[float] = []
    errors = peak = 0
    attacking = None if attack is None else threading.Thread(target=attack, args=(node, seconds))
    with Client(f"{LOOPBACK}:{node.tcp}", timeout_ms=60_000) as client:
        client.produce("honest", bytes(200))
        if attacking is not None:
            attacking.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until or (attacking is not None and attacking.is_alive()):
            begun = time.monotonic()
            try:
                client.produce("honest", bytes(200))
                took.append(time.monotonic() - begun)
                with urlopen(f"http://{LOOPBACK}:{node.http}/health", timeout=5) as answer:
                    errors += answer.status != 200
            except Exception:
                errors += 1
            peak = max(peak, node.memory_mib)
            time.sleep(0.01)
    if attacking is not None:
        attacking.join()
    took.sort()
    return Row(name, 1000 * took[len(took) // 2], 1000 * took[int(len(took) * 0.99)], errors, peak)


def slow(mode: str) -> Attack:
    """With slowhttptest: slow headers, slow bodies, or slow reading."""

    def attack(node: Node, seconds: float) -> None:
        url = f"http://{LOOPBACK}:{node.http}/openapi.json"
        options = ["-c", "1000", "-r", "400", "-i", "2", "-l", str(int(seconds)), "-p", "3", "-u", url]
        subprocess.run(["slowhttptest", mode, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return attack


def garbage(node: Node, seconds: float) -> None:
    """Connections of random bytes at three ports."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        opened = []
        for number in range(_GARBAGE_COUNT):
            port = (node.tcp, node.peer, node.http)[number % 3]
            connection = socket.create_connection((LOOPBACK, port), timeout=5)
            connection.sendall(os.urandom(64))
            opened.append(connection)
        for connection in opened:
            connection.close()


def bodies(node: Node, seconds: float) -> None:
    """Large bodies over HTTP that never end."""
    head = (
        b"POST /v1/topics/t/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n"
    )
    opened = []
    for _ in range(_BODY_COUNT):
        connection = socket.create_connection((LOOPBACK, node.http), timeout=5)
        opened.append(connection)
        try:
            connection.sendall(head % (_BODY_BYTES + 1) + bytes(_BODY_BYTES))
        except OSError:
            # It was refused.
            pass
    time.sleep(seconds / 2)
    for connection in opened:
        connection.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attacks")
    parser.add_argument("--seconds", type=float, default=10, help="of each attack")
    seconds = parser.parse_args().seconds
    attacks: dict[str, Attack | None] = {"quiet": None, "garbage connections": garbage, "endless bodies": bodies}
    if shutil.which("slowhttptest") is None:
        print("slowhttptest is not installed (apt-get install slowhttptest): its attacks are left out")
    else:
        attacks |= {"slow headers": slow("-H"), "slow bodies": slow("-B"), "slow reading": slow("-X")}
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        node = Node(Path(folder))
        try:
            rows = [measured(node, name, seconds, attack) for name, attack in attacks.items()]
        finally:
            node.end()
    quiet = rows[0]
    print(f"{'attack':22} {'p50 ms':>8} {'p99 ms':>8} {'errors':>7} {'memory MiB':>11}")
    for row in rows:
        bound_ms = max(3 * quiet.p99_ms, 50)
        is_well = row.p99_ms <= bound_ms and not row.errors and row.memory_mib <= quiet.memory_mib + MEMORY_MIB_MAX
        print(
            f"{row.name:22} {row.p50_ms:8.1f} {row.p99_ms:8.1f} {row.errors:7} {row.memory_mib:11}",
            "" if is_well else "TOO MUCH",
        )
        failed += [] if is_well else [row.name]
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
