"""Three real processes and a client that keeps its own ledger of what it was promised."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tests.integration.ports import free_ports

ROOT = Path(__file__).parents[2]
NODES = (1, 2, 3)


class RefusedError(Exception):
    """A node answered with an error; the argument is its code."""


class NodeProcess:
    def __init__(self, node: int, data: Path, ports: dict[int, int]) -> None:
        self.node = node
        self.data = data
        self._arguments = json.dumps({"node": node, "data": str(data), "ports": ports})
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._number = 0

    @property
    def is_running(self) -> bool:
        return self._process is not None

    async def start(self) -> None:
        assert self._process is None
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.integration.node",
            self._arguments,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 24,
        )
        self._reading = asyncio.ensure_future(self._read())

    async def ask(self, do: str, **arguments: Any) -> Any:
        """The answer; RefusedError with its code, or ConnectionError if the process is or goes away."""
        if self._process is None:
            raise ConnectionError("not running")
        assert self._process.stdin is not None
        self._number += 1
        answer = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        request = {"id": self._number, "do": do, **arguments}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        return await answer

    async def stop(self) -> None:
        """In order, by the end of its standard input."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            await self._wait_gone(expected=0)

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            await self._wait_gone(expected=-signal.SIGKILL)

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            answer = json.loads(line)
            waiting = self._waiting.pop(answer["id"])
            if waiting.done():
                continue
            if "error" in answer:
                waiting.set_exception(RefusedError(answer["error"]))
            else:
                waiting.set_result(answer["result"])

    async def _wait_gone(self, expected: int) -> None:
        assert self._process is not None
        assert self._reading is not None
        code = await self._process.wait()
        await self._reading
        self._process = None
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the process ended"))
        self._waiting.clear()
        assert code == expected, f"node {self.node} ended with {code}"


class Cluster:
    def __init__(self, folder: Path) -> None:
        ports = dict(zip(NODES, free_ports(len(NODES)), strict=True))
        self.nodes = {node: NodeProcess(node, folder / str(node), ports) for node in NODES}
        #: What was acknowledged: the command and the position it was promised.
        self.promised: dict[int, int] = {}
        #: Commands of which nothing certain is known.
        self.unknown: dict[int, None] = {}
        #: Commands that were certainly refused.
        self.refused: dict[int, None] = {}
        self._next_command = 1

    async def start(self) -> None:
        await asyncio.gather(*(node.start() for node in self.nodes.values() if not node.is_running))

    async def kill(self) -> None:
        await asyncio.gather(*(node.kill() for node in self.nodes.values()))

    async def wait_leader(self, excluded: int = 0) -> NodeProcess:
        """A node that leads, other than `excluded`."""
        while True:
            for node in self.nodes.values():
                if node.is_running and node.node != excluded and (await node.ask("status"))["leads"]:
                    return node
            await asyncio.sleep(0.01)

    async def propose(self, node: NodeProcess, padding: int = 100) -> bool:
        """Proposes the next command there and records the outcome. Returns whether it was acknowledged."""
        number = self._next_command
        self._next_command += 1
        self.unknown[number] = None
        try:
            position = await node.ask("propose", command=number, padding=padding)
        except RefusedError as refusal:
            if str(refusal) != "OUTCOME_UNKNOWN":
                del self.unknown[number]
                self.refused[number] = None
            return False
        except ConnectionError:
            return False
        del self.unknown[number]
        self.promised[number] = position
        return True

    async def propose_many(self, node: NodeProcess, count: int, padding: int = 100) -> int:
        return sum(await asyncio.gather(*(self.propose(node, padding) for _ in range(count))))

    async def check(self) -> None:
        """All running nodes converge to one list, in which every promise is kept and nothing is twice."""
        leader = await self.wait_leader()
        length, _ = await leader.ask("read")
        running = [node for node in self.nodes.values() if node.is_running]
        while True:
            lists = [await node.ask("commands") for node in running]
            if all(one == lists[0] and len(one) >= length for one in lists):
                break
            await asyncio.sleep(0.01)
        commands = lists[0]
        assert len(set(commands)) == len(commands)
        for number, position in self.promised.items():
            assert commands[position] == number
        assert not set(commands) & self.refused.keys()
        assert set(commands) <= self.promised.keys() | self.unknown.keys()


def run(folder: Path, test: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
    """Runs a test against a started cluster and leaves no process behind."""

    async def bounded() -> None:
        cluster = Cluster(folder)
        try:
            async with asyncio.timeout(30):
                await cluster.start()
                await test(cluster)
        finally:
            await cluster.kill()

    asyncio.run(bounded())
