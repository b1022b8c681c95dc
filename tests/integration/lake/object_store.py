"""An S3 server on this machine, in a process of its own: `deltalake` waits for it without letting other threads run."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from functools import cache

import pytest

from tests.integration.ports import free_ports

WAIT_S_MAX = 60


@cache
def prepare_environment() -> str:
    """The address of the server, which need not run yet. Processes that are started from now on know it."""
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ENDPOINT_URL": address,
    }
    return address


@pytest.fixture(scope="session")
def object_store() -> Iterator[str]:
    """The address of a bucket."""
    pytest.importorskip("moto", reason="the extra dev")
    address = prepare_environment()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", address.rpartition(":")[2]]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _make_bucket(f"{address}/lake")
        yield "s3://lake"
    finally:
        server.kill()
        server.wait()


def _make_bucket(url: str) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=WAIT_S_MAX):
                return
        except OSError:
            assert time.monotonic() < deadline, "the S3 server does not start"
            time.sleep(0.05)
