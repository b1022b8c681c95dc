"""Faults of the machine under a node: full disks, slow disks, cut networks."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size_mib: int) -> Iterator[Path]:
    """A file system with little room; skips the test where none can be mounted."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "flotilla-test", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system takes root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def slow_disk(pid: int, delay_ms: int) -> Iterator[None]:
    """Every write and sync of a process takes so much longer; skips the test where processes cannot be traced."""
    calls = "pwrite64,pwritev,pwritev2,fdatasync,fsync"
    trace = ["strace", "-f", "-p", str(pid), "-o", os.devnull, "-e", f"trace={calls}"]
    if shutil.which("strace") is None:
        pytest.skip("slowing a disk down takes strace")
    tracing = subprocess.Popen([*trace, "-e", f"inject={calls}:delay_enter={delay_ms}ms"], stderr=subprocess.PIPE)
    assert tracing.stderr is not None
    # Its first word is that it holds the process, or why it does not.
    said = tracing.stderr.readline()
    if b"attached" not in said:
        tracing.kill()
        tracing.communicate()
        pytest.skip(f"processes cannot be traced here: {said.decode().strip()}")
    try:
        yield
    finally:
        tracing.send_signal(signal.SIGINT)
        tracing.communicate()


class Namespaces:
    """Network namespaces that meet at a bridge: hosts with cables that can be pulled."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._numbers = range(1, count + 1)
        #: The host of the tests is the bridge's own.
        self.hosts = [f"10.91.7.{number}" for number in self._numbers]

    def prefix(self, number: int) -> tuple[str, ...]:
        """What a command runs under to be at host `number`."""
        return ("ip", "netns", "exec", f"{self._name}-{number}")

    def cut(self, number: int) -> None:
        """Pulls the cable: packets vanish, and no connection is closed."""
        _ip("link", "set", f"{self._name}{number}", "nomaster")

    def heal(self, number: int) -> None:
        _ip("link", "set", f"{self._name}{number}", "master", self._name)

    def _build(self) -> None:
        bridge = self._name
        _ip("link", "add", bridge, "type", "bridge")
        _ip("addr", "add", "10.91.7.254/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for number, host in zip(self._numbers, self.hosts, strict=True):
            space = f"{bridge}-{number}"
            cable = f"{bridge}{number}"
            _ip("netns", "add", space)
            _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", cable, "master", bridge, "up")
            _ip("-n", space, "addr", "add", f"{host}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "link", "set", "lo", "up")

    def _remove(self) -> None:
        for number in self._numbers:
            subprocess.run(["ip", "link", "del", f"{self._name}{number}"], capture_output=True, check=False)
            subprocess.run(["ip", "netns", "del", f"{self._name}-{number}"], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self._name], capture_output=True, check=False)

    @classmethod
    @contextmanager
    def made(cls, name: str, count: int) -> "Iterator[Namespaces]":
        """Skips the test where they cannot be made."""
        spaces = cls(name, count)
        if shutil.which("ip") is None:
            pytest.skip("network namespaces take the `ip` command of iproute2")
        try:
            try:
                spaces._build()
            except subprocess.CalledProcessError as error:
                pytest.skip(f"network namespaces take root: {error.stderr.decode().strip()}")
            yield spaces
        finally:
            spaces._remove()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], capture_output=True, check=True)
