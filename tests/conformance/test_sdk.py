"""The Python client plays every scenario of conformance/sdk. `test_typescript` and `test_java` compare with it."""

import pytest

from tests.conformance.sdk.harness import Harness
from tests.conformance.sdk.play import SdkPlay, SdkScenario, sdk_scenarios
from tests.typescript import IN_ONE_PROCESS

# In the same process as the tests of the TypeScript client, because they share the brokers.
pytestmark = [pytest.mark.slow, IN_ONE_PROCESS]

SCENARIOS = list(sdk_scenarios())


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_scenario(harness: Harness, scenario: SdkScenario) -> None:
    SdkPlay(harness).run(scenario)


def test_scenarios_say_what_they_expect() -> None:
    known = {"do", "with", "as", "start", "expect", "expect_error", "eventually"}
    for scenario in SCENARIOS:
        assert scenario.at in ("cluster", "secured"), scenario
        assert all(step.keys() <= known for step in scenario.steps), scenario
        assert any({"expect", "expect_error"} & step.keys() for step in scenario.steps), scenario
    assert len({str(scenario) for scenario in SCENARIOS}) == len(SCENARIOS) > 0
