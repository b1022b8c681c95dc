"""The TypeScript client plays every scenario, and ends each as the Python client does: it passes.

`test_conformance` and `test_sdk` hold the Python client to that.
"""

import json

import pytest

from tests.conformance.scenario import scenarios
from tests.conformance.sdk.harness import Harness
from tests.conformance.sdk.play import sdk_scenarios
from tests.typescript import IN_ONE_PROCESS, SDK, built, run

pytestmark = [pytest.mark.slow, IN_ONE_PROCESS]

#: What the client does not offer, and why.
NOT_OFFERED = dict.fromkeys(
    (
        "delayed: delayed messages are listed by their time and one is delivered now",
        "delayed: what is not there cannot be delivered now",
    ),
    "operators have the command line, the console, HTTP and Python for that",
)
WITHOUT_ZSTD = {
    "records: compressed batches come back compressed": "zstd is written by Node 22.15 and newer",
    "limits: a payload above the topic's limit is refused, also after the limit was altered": (
        "zstd is written by Node 22.15 and newer"
    ),
}


def test_every_scenario_ends_as_in_python() -> None:
    built()
    writes_zstd = run("-p", "'zstdCompressSync' in require('node:zlib')").strip() == "true"
    lines = run("build/conformance.js", str(SDK.parents[1] / "conformance")).splitlines()
    outcomes = {line["scenario"]: line["outcome"] for line in map(json.loads, lines)}
    expected = {str(scenario): "passed" for scenario in scenarios()}
    for scenario in NOT_OFFERED if writes_zstd else (*NOT_OFFERED, *WITHOUT_ZSTD):
        expected[scenario] = "not offered"
    assert outcomes == expected


def test_every_scenario_of_an_sdk_ends_as_in_python(harness: Harness) -> None:
    built()
    with harness.control() as (address, results):
        run("build/sdk.js", str(SDK.parents[1] / "conformance" / "sdk"), address)
    expected = {str(scenario): "passed" for scenario in sdk_scenarios()}
    expected |= {f"{scenario} (push)": "passed" for scenario in sdk_scenarios() if "push" in scenario.deliveries}
    assert results == expected
