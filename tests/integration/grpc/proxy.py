"""A real `flotilla proxy` before a cluster, as a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.broker.cluster import ROOT, BrokerCluster
from tests.integration.ports import LOOPBACK, free_ports


@contextmanager
def proxy_before(cluster: BrokerCluster, folder: Path) -> Iterator[str]:
    """Its gRPC address. It knows one broker, and finds the others by itself."""
    address = f"{LOOPBACK}:{free_ports(1)[0]}"
    servers = next(iter(cluster.brokers.values())).client_address
    flags = ["--servers", servers, "--grpc-listen", address, "--http-listen", "off", "--stop-with-stdin"]
    with (folder / "proxy.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "flotilla.cli", "proxy", *flags],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
        )
    assert process.stdin is not None
    try:
        yield address
        process.stdin.close()
        assert process.wait(20) == 0, "a proxy stops in order"
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
