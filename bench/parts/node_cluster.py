"""Three nodes as processes on loopback, with one request at a time."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[2]
NODES = (1, 2, 3)


class BenchCluster:
    def __init__(self, folder: Path, groups: int, *, keeps_log: bool = False) -> None:
        """`keeps_log`: no snapshot shortens a log, so that a starting node reads all of it."""
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in NODES]
        ports = {node: listener.getsockname()[1] for node, listener in zip(NODES, sockets, strict=True)}
        for listener in sockets:
            listener.close()
        self._environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        self._arguments = {"ports": ports, "groups": groups, "keeps_log": keeps_log}
        self._folder = folder
        self.processes = {node: self._start(node) for node in NODES}

    def _start(self, node: int) -> "subprocess.Popen[str]":
        arguments = json.dumps({"node": node, "data": str(self.data(node)), **self._arguments})
        return subprocess.Popen(
            [sys.executable, "-m", "bench.parts.node", arguments],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def data(self, node: int) -> Path:
        return self._folder / str(node)

    def stop(self, node: int) -> None:
        """In order, as a service manager does."""
        self.processes[node].communicate()

    def start(self, node: int) -> None:
        """Returns when it has opened its store."""
        self.processes[node] = self._start(node)
        self.ask(node, "status")

    def __enter__(self) -> "BenchCluster":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate()

    def ask(self, node: int, do: str, **arguments: Any) -> dict[str, Any]:
        process = self.processes[node]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"node {node} ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def wait_leader(self, group: int) -> int:
        while True:
            for node in NODES:
                if group in self.ask(node, "status")["leading"]:
                    return node
            time.sleep(0.05)

    def cpu_s(self, node: int) -> float:
        """Processor time that a node has used."""
        fields = Path(f"/proc/{self.processes[node].pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
