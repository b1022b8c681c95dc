"""One real node as a process: commands come in as lines of JSON, answers go out the same way.

    {"id": 1, "do": "propose", "command": 42, "padding": 100}   ->   {"id": 1, "result": 17}
    {"id": 2, "do": "status"}                                   ->   {"id": 2, "result": {...}}

An error answers with {"id": ..., "error": "NOT_LEADER"}. The end of standard input stops the node in order.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import uvloop

from flotilla.node import Node, NodeParts
from flotilla.raft.messages import Configuration, Entry
from flotilla.raft.roles import LEADER
from flotilla.runtime.process import tune_process
from flotilla.sim.ledger.machine import Ledger, command
from flotilla.storage.options import StoreOptions
from flotilla.types.address import Address
from flotilla.types.errors import FlotillaError
from flotilla.types.records import Span
from flotilla.types.timing import Timing

GROUP = 1
TICK_MS = 20


def describe(entry: Entry) -> Span | None:
    return None


class Session:
    def __init__(self, node: Node) -> None:
        self._node = node

    def handle(self, request: dict[str, Any]) -> None:
        number = request["id"]
        runtime = self._node.runtime
        match request["do"]:
            case "propose":
                data = command(request["command"], request["padding"])
                runtime.propose(GROUP, data, lambda result: self._answer(number, result))
            case "read":
                runtime.read(GROUP, None, lambda result: self._answer(number, result))
            case "status":
                self._answer(number, self._status())
            case "commands":
                ledger = runtime.driver.replicas[GROUP].machine
                assert isinstance(ledger, Ledger)
                self._answer(number, list(ledger.commands))

    def _status(self) -> dict[str, Any]:
        replica = self._node.runtime.driver.replicas[GROUP]
        return {
            "leads": replica.raft.role == LEADER,
            "leader": replica.raft.leader,
            "term": replica.raft.term,
            "applied": replica.applied,
            "syncs": self._node.runtime.journal.durations.count,
        }

    def _answer(self, number: int, result: object) -> None:
        if isinstance(result, FlotillaError):
            self._print({"id": number, "error": result.code})
        else:
            self._print({"id": number, "result": result})

    def _print(self, line: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


async def main(node_id: int, data: Path, ports: dict[int, int]) -> None:
    settings = NodeParts(
        node=node_id,
        cluster=b"integration test",
        data=data,
        listen=Address("127.0.0.1", ports[node_id]),
        peers={peer: Address("127.0.0.1", port) for peer, port in ports.items() if peer != node_id},
        store=StoreOptions(journal_bytes=256 * 1024, segment_bytes=256 * 1024),
        timing=Timing(10 * TICK_MS, 3 * TICK_MS, TICK_MS),
    )
    node = Node(settings, lambda group: Ledger(), describe)
    node.create_group(GROUP, Configuration(voters=tuple(sorted(ports))))
    await node.start()
    tune_process()
    session = Session(node)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    broken = asyncio.ensure_future(node.runtime.wait_stopped())
    broken.add_done_callback(lambda _: reader.feed_eof())
    while line := await reader.readline():
        session.handle(json.loads(line))
    await node.stop()
    await broken


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    ports = {int(peer): port for peer, port in arguments["ports"].items()}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(arguments["node"], Path(arguments["data"]), ports))
