"""Object stores on this machine, each in a process of its own: `deltalake` waits for them without letting other threads
run.

Amazon's is `moto`; Google's is the same behind other names (`google_server.py`); Microsoft's is Azurite, which its
makers publish for tests.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.integration.lake.azure_request import ACCOUNT, KEY, container_request
from tests.integration.ports import free_ports

WAIT_S_MAX = 60
_AZURITE = "azurite@3.37.0"
#: Less than the time limit of a test.
_INSTALL_S_MAX = 240


@cache
def prepare_environment() -> str:
    """The address of Amazon's server, which need not run yet. Processes that are started from now on know it."""
    address = _free_address()
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
    """The address of a bucket of Amazon's."""
    pytest.importorskip("moto", reason="the extra dev")
    address = prepare_environment()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", address.rpartition(":")[2]]
    with _running(command):
        _ask(urllib.request.Request(f"{address}/lake", method="PUT"))
        yield "s3://lake"


@pytest.fixture(scope="session")
def google_store() -> Iterator[str]:
    """The address of a bucket of Google's."""
    pytest.importorskip("moto", reason="the extra dev")
    address = _free_address()
    account = {"gcs_base_url": address, "disable_oauth": True, "client_email": "", "private_key": ""}
    os.environ |= {
        "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps({**account, "private_key_id": ""}),
        "GOOGLE_ALLOW_HTTP": "true",
    }
    command = [sys.executable, "-m", "tests.integration.lake.google_server", address.rpartition(":")[2]]
    with _running(command):
        _ask(urllib.request.Request(f"{address}/lake", method="PUT"))
        yield "gs://lake"


@pytest.fixture(scope="session")
def azure_store() -> Iterator[str]:
    """The address of a container of Microsoft's."""
    program = _azurite()
    address = _free_address()
    os.environ |= {
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        "AZURE_STORAGE_ENDPOINT": f"{address}/{ACCOUNT}",
        "AZURE_ALLOW_HTTP": "true",
    }
    port = address.rpartition(":")[2]
    words = ["--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry", "--blobPort", port]
    with _running([*program, *words]):
        _ask(container_request(address, "lake"))
        yield f"abfs://lake@{ACCOUNT}.dfs.core.windows.net"


def _free_address() -> str:
    return f"http://127.0.0.1:{free_ports(1)[0]}"


def _azurite() -> list[str]:
    """The command, installed once for all processes; skips the test where that cannot be."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("node and npm are not installed, which Azurite needs")
    folder = Path(tempfile.gettempdir(), f"flotilla-{_AZURITE.replace('@', '-')}-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    program = folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    done = folder / "installed"
    with open(folder / "guard", "wb") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not done.exists():
            words = ["install", "--no-audit", "--no-fund", "--no-save", "--prefix", str(folder), _AZURITE]
            try:
                subprocess.run([npm, *words], capture_output=True, check=True, timeout=_INSTALL_S_MAX)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                pytest.skip(f"Azurite cannot be installed, perhaps for lack of a registry: {error.stderr or error}")
            done.touch()
    return [node, str(program)]


@contextmanager
def _running(command: Sequence[str]) -> Iterator[None]:
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        server.kill()
        server.wait()


def _ask(request: urllib.request.Request) -> None:
    """Until the server answers."""
    deadline = time.monotonic() + WAIT_S_MAX
    while True:
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S_MAX):
                return
        except urllib.error.HTTPError:
            raise
        except OSError:
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.05)
