"""Servers are gone with their block, also what they started themselves."""

import os
import sys
import time
from pathlib import Path

import pytest

from bench.peers.peer import free_ports
from bench.peers.processes import Processes

LISTEN = (
    """
import os, socket, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
open("child", "w").write(str(child.pid))
while sum(os.times()[:2]) == 0:
    pass  # A quick start may take less than the system counts.
socket.create_server(("127.0.0.1", int(sys.argv[1])))
""".replace("socket.create_server", "listener = socket.create_server")
    + "time.sleep(1000)\n"
)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        # One that has ended and was not waited for by its parent is not there.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_server_ends_with_all_it_started(is_killed: bool, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with Processes(tmp_path) as processes:
        processes.start("server", [sys.executable, "-c", LISTEN, str(port)])
        processes.wait_listening([port])
        child = int((tmp_path / "child").read_text())
        assert is_there(child)
        (resident,) = processes.resident_bytes()
        assert resident > 1_000_000
        assert processes.busy_s() > 0
        if is_killed:
            processes.kill("server")
            assert processes.resident_bytes() == []
    deadline = time.monotonic() + 30
    while is_there(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_server_that_ends_is_reported_with_its_last_output(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with Processes(tmp_path) as processes:
        processes.start("server", [sys.executable, "-c", "raise SystemExit('no such setting')"])
        with pytest.raises(TimeoutError, match="no such setting"):
            processes.wait_listening([port])
