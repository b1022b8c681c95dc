"""Every scenario at every endpoint: what a client sees does not depend on how it came in."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import pytest
import uvloop

from flotilla.server import Server
from flotilla.types.address import Address
from flotilla.types.operations import Produced
from flotilla.types.settings import NodeSettings
from tests.conformance.arrivals import Arrivals
from tests.conformance.endpoints import ENDPOINTS
from tests.conformance.matching import Mismatch, match, substitute
from tests.conformance.scenario import FOLDER, STEP_SECONDS_MAX, Endpoint, Play, Scenario, scenarios
from tests.conformance.values import OPERATIONS

ANY_PORT = Address("127.0.0.1", 0)
SCENARIOS = list(scenarios())
#: About the connection, or another request on it: a matter of each endpoint's own tests.
OF_A_CONNECTION = {"withdraw", "ping"}
#: What only this package asks for, with tests of its own: backups, Spark's progress, and pages of the console.
OF_THIS_PACKAGE = {
    "hold_settlements",
    "read_log",
    "read_snapshot",
    "report_pipeline",
    "list_pipelines",
    "count_partitions",
    "list_clients",
    "list_blocked_keys",
    "read_due_times",
}


class Stage:
    """A broker of one node with an open endpoint, on a loop that runs while a scenario is played."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        settings = NodeSettings(
            data_dir=str(folder),
            cluster_name="conformance",
            listen=ANY_PORT,
            peer_listen=ANY_PORT,
            http_listen=ANY_PORT if endpoint == "http" else None,
            grpc_listen=ANY_PORT if endpoint == "grpc" else None,
            journal_file_bytes=1 << 20,
        )
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._server = Server(settings)
        self._arrivals = Arrivals()
        self._arrivals.watch(self._server.broker)
        self._runner.run(self._start())
        self._endpoint = ENDPOINTS[endpoint](self._server)
        self._runner.run(self._endpoint.open())

    async def _start(self) -> None:
        await self._server.start()
        async with asyncio.timeout(STEP_SECONDS_MAX):
            while not self._server.catalog.brokers():
                await asyncio.sleep(0.01)

    def lacks(self, scenario: Scenario) -> list[str]:
        """Operations of the scenario that the endpoint does not offer."""
        done = [step["do"] for step in scenario.steps if "do" in step]
        return [name for name in done if OPERATIONS[name] in self._endpoint.LACKS]

    def play(self, scenario: Scenario) -> None:
        self._runner.run(Play(self._endpoint, self._arrivals).run(scenario))

    def host(self, play: Callable[[Server, Arrivals], Coroutine[None, None, None]]) -> None:
        """Runs the broker while another process plays scenarios at it."""
        self._runner.run(play(self._server, self._arrivals))

    def close(self) -> None:
        self._runner.run(self._endpoint.close())
        self._runner.run(self._server.stop())
        self._runner.close()


@pytest.fixture(scope="module", params=ENDPOINTS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("conformance"), request.param)
    yield stage
    stage.close()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_scenario(stage: Stage, scenario: Scenario) -> None:
    lacking = stage.lacks(scenario)
    if lacking:
        pytest.skip(f"this endpoint does not offer {lacking[0]}")
    stage.play(scenario)


# The scenarios and their runner are checked too.


def test_every_operation_has_a_scenario() -> None:
    done = {step["do"] for scenario in SCENARIOS for step in scenario.steps if "do" in step}
    assert done == set(OPERATIONS) - OF_A_CONNECTION - OF_THIS_PACKAGE


def test_scenarios_say_what_they_expect() -> None:
    known = {"do", "with", "expect", "expect_error", "bind", "as", "await", "eventually"}
    for scenario in SCENARIOS:
        for step in scenario.steps:
            assert step.keys() <= known, scenario
            assert not step.keys() >= {"expect", "expect_error"}, scenario
        assert any({"expect", "expect_error"} & step.keys() for step in scenario.steps), scenario
    assert len({str(scenario) for scenario in SCENARIOS}) == len(SCENARIOS) > 0
    assert FOLDER.joinpath("README.md").exists()


@pytest.mark.parametrize(
    ("expected", "found", "is_match"),
    [
        ({}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": True}, False),
        ([{"a": 1}], [{"a": 1, "b": 2}], True),
        ([1], [1, 2], False),
        ([], [1], False),
        ({"a": {"above": 3}}, {"a": 4}, True),
        ({"a": {"above": 3}}, {"a": 3}, False),
        ({"a": {"keys": ["x"]}}, {"a": {"x": 1}}, True),
        ({"a": {"keys": ["x"]}}, {"a": {"x": 1, "y": 2}}, False),
        ({"a": "text"}, {"a": b"text"}, True),
        ({"a": {"hex": "00"}}, {"a": b"\0"}, True),
        ({"a": {"repeat": "ab", "count": 2}}, {"a": b"abab"}, True),
        ({"a": "text"}, {"a": b"other"}, False),
        ({"a": None}, {"a": b""}, False),
    ],
)
def test_matching(expected: object, found: object, is_match: bool) -> None:
    if is_match:
        match(expected, found)
    else:
        with pytest.raises(Mismatch):
            match(expected, found)


def test_variables() -> None:
    given = {"a": "$n", "b": ["$t-2"], "c": 1}
    assert substitute(given, {"n": 5, "t": "x"}) == {"a": 5, "b": ["x-2"], "c": 1}


class WrongEndpoint:
    """Answers everything with the same."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    async def call(self, request: object) -> object:
        return self._answer


def test_an_endpoint_that_answers_otherwise_is_found_out() -> None:
    produce = {"topic": "$topic", "partition": 0, "batch": {"raw": ""}}
    scenario = Scenario("x", "y", [{"do": "produce", "with": produce, "expect": {"base_offset": 1}}])
    endpoint: Endpoint = WrongEndpoint(Produced(0))  # type: ignore[assignment]
    with pytest.raises(AssertionError, match="step 1"):
        asyncio.run(Play(endpoint, Arrivals()).run(scenario))
