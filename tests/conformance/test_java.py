"""The tests of the Java client in one JVM, the scenarios among them: each ends as in Python.

The scenarios of the wire are played at a node in this process, which says when a request has arrived there; those of
SDKs at the brokers of the harness. All other tests of the client start a node of their own. Maven works offline: `make
sdks` has it fetch what it needs, once.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

from flotilla.server import Server
from tests.conformance.arrivals import Arrivals
from tests.conformance.scenario import scenarios
from tests.conformance.sdk.harness import Harness
from tests.conformance.sdk.play import sdk_scenarios
from tests.conformance.test_conformance import Stage
from tests.conformance.values import OPERATIONS
from tests.java import IN_ONE_PROCESS, MAVEN, SDK, building, environment, need_maven

#: What the Java client does not offer, and why; operations that gRPC lacks are found by themselves.
NOT_OFFERED: Final = {
    "records: compressed batches come back compressed": "it does not compress batches",
    "limits: a payload above the topic's limit is refused, also after the limit was altered": (
        "it does not compress batches"
    ),
    "security: a certificate is a log-in, and an expired one is not": (
        "gRPC asks for no certificate where it is optional"
    ),
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), IN_ONE_PROCESS]


class JavaRun:
    """One run of Maven: its output and the result of every scenario."""

    def __init__(self, sdk_control: str) -> None:
        self._sdk_control = sdk_control
        self.code = 0
        self.output = ""
        self.results: dict[str, str] = {}

    async def play(self, server: Server, arrivals: Arrivals) -> None:
        control = await asyncio.start_server(lambda *streams: self._serve(arrivals, *streams), "127.0.0.1", 0)
        port = control.sockets[0].getsockname()[1]
        variables = environment() | {
            "CONFORMANCE_CONTROL": f"127.0.0.1:{port}",
            "CONFORMANCE_ADDRESS": server.grpc_address,
            "SDK_CONTROL": self._sdk_control,
            "FLOTILLA": f"{sys.executable} -m flotilla.cli",
        }
        process = await asyncio.create_subprocess_exec(
            *MAVEN, "test", cwd=SDK, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
            control.close()
        self.code = await process.wait()
        self.output = output.decode(errors="replace")

    async def _serve(self, arrivals: Arrivals, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            told: dict[str, Any] = json.loads(line)
            if "scenario" in told:
                self.results[told["scenario"]] = told["result"]
            else:
                arrived = arrivals.next_of(OPERATIONS[told["watch"]])
                arrived.add_done_callback(lambda _, number=told["id"]: writer.write(b"arrived %d\n" % number))
                writer.write(b"watching %d\n" % told["id"])
        writer.close()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    need_maven()
    stage = Stage(tmp_path_factory.mktemp("java"), "grpc")
    yield stage
    stage.close()


def test_the_java_client(stage: Stage, harness: Harness) -> None:
    with building(), harness.control() as (address, results):
        run = JavaRun(address)
        stage.host(run.play)
    expected = {str(each): "not offered" if stage.lacks(each) else "passed" for each in scenarios()}
    expected |= {str(each): "passed" for each in sdk_scenarios()}
    expected |= dict.fromkeys(NOT_OFFERED, "not offered")
    results |= run.results
    found = {name: result.partition(":")[0].partition(" in ")[0] for name, result in results.items()}
    assert found == expected, [result for result in results.values() if result.startswith("failed")]
    assert run.code == 0, run.output[-4000:]
