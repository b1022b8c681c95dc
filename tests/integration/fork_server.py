"""Brokers by `fork`: a process that has loaded the broker's code once, and becomes a broker with each fork.

A complete run starts more than a thousand brokers, and three quarters of a start's processor time is spent on loading
the same modules. A forked broker is a process of its own, runs `flotilla serve` from its first line, and ends like any
other. The fork server has one thread and no open file of a test.

This module is both sides: imported by tests, and run as the server, with a socket as its standard input.
"""

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import IO, Any

from flotilla.cli import local_cluster

ROOT = Path(__file__).resolve().parents[2]
REQUEST_BYTES_MAX = 1 << 18


class ForkedBroker:
    """A broker process, with the part of `subprocess.Popen` that tests use. Its parent is the fork server."""

    def __init__(self, server: "ForkServer", pid: int, stdin: IO[bytes]) -> None:
        self._server = server
        self.pid = pid
        self.stdin = stdin
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.ask({"poll": self.pid})
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = self._server.ask({"wait": self.pid})
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            # Its id stays its own until `poll` has seen its end.
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The side of the tests."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.fork_server"],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path},
                stdin=theirs,
                start_new_session=True,
            )
        atexit.register(self._close)

    def _close(self) -> None:
        """It ends with the socket, also when this process is killed."""
        self._socket.close()
        self._process.wait()

    def ask(self, request: dict[str, Any], descriptors: tuple[int, ...] = ()) -> Any:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
            return json.loads(self._socket.recv(REQUEST_BYTES_MAX))

    def fork(self, arguments: list[str], environment: dict[str, str], output: IO[bytes]) -> ForkedBroker:
        reading, writing = os.pipe()
        try:
            request = {"arguments": arguments, "environment": environment}
            pid = self.ask(request, (reading, output.fileno(), output.fileno()))
        finally:
            os.close(reading)
        return ForkedBroker(self, pid, open(writing, "wb", buffering=0))


@cache
def _server(_process: int) -> ForkServer:
    return ForkServer()


def fork_broker(arguments: list[str], environment: dict[str, str], output: IO[bytes]) -> ForkedBroker:
    """Runs `flotilla` with these arguments. Its input is a pipe; its output and errors go to `output`."""
    return _server(os.getpid()).fork(arguments, environment, output)


def fork_local_clusters() -> None:
    """From now on, `LocalCluster` forks its nodes; detached ones, which outlive this process, it starts as ever."""
    start_process = local_cluster.start_process

    def start(arguments: list[str], environment: dict[str, str], log: IO[bytes], *, is_detached: bool) -> Any:
        if is_detached or "LD_PRELOAD" in environment:
            return start_process(arguments, environment, log, is_detached=is_detached)
        return fork_broker(arguments, environment, log)

    local_cluster.start_process = start


# The side of the server.


def _exit_code(status: int) -> int:
    return os.waitstatus_to_exitcode(status)


def _answer(request: dict[str, Any]) -> int | None:
    if "poll" in request:
        pid, status = os.waitpid(request["poll"], os.WNOHANG)
        return _exit_code(status) if pid else None
    return _exit_code(os.waitpid(request["wait"], 0)[1])


def _become(request: dict[str, Any], descriptors: list[int]) -> list[str]:
    """In the child."""
    os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    return ["flotilla", *request["arguments"]]


def _serve(connection: socket.socket) -> list[str] | None:
    """Returns in every child, with its arguments; in the server when the tests are over."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(connection, REQUEST_BYTES_MAX, 3)
        if not data:
            return None
        request = json.loads(data)
        if not descriptors:
            connection.send(json.dumps(_answer(request)).encode())
            continue
        pid = os.fork()
        if pid == 0:
            connection.close()
            return _become(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        connection.send(json.dumps(pid).encode())


def _load() -> Any:
    """Whatever a broker needs, and nothing that has begun to run."""
    from flotilla.security.grpc_environment import prepare_grpc

    prepare_grpc()
    import flotilla.cli.serve
    import flotilla.server  # noqa: F401
    from flotilla.cli.__main__ import main

    return main


if __name__ == "__main__":
    gc.disable()
    run = _load()
    gc.freeze()
    # Standard input becomes the child's own.
    taken = socket.socket(fileno=os.dup(0))
    if (words := _serve(taken)) is not None:
        sys.argv = words
        run()
