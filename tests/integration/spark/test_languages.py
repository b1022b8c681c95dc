"""A task enqueued in TypeScript, worked on in Java, failed, redriven from Python, and counted in Spark."""

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flotilla.cli.local_cluster import HOST, LocalCluster
from tests import java, typescript

EXAMPLE = Path(__file__).parents[3] / "examples" / "languages"
TOPIC = "mails-of-four-languages"

# It may build two clients first.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_one_queue_in_four_languages(spark: Any, cluster: LocalCluster, servers: str) -> None:
    java.need_maven()
    client = typescript.built()
    environment = {**os.environ, "FLOTILLA_SERVERS": servers, "TOPIC": TOPIC}
    # Beside the package, where its name is known; the program has no types to take away.
    program = client / "build" / "enqueue.mjs"
    program.write_text((EXAMPLE / "enqueue.ts").read_text("utf-8"), "utf-8")
    assert _run(["node", str(program)], environment) == "enqueued 3\n"

    environment["LANGUAGES"] = f"{HOST}:{cluster.nodes[1].ports.grpc} {TOPIC}"
    with java.building():
        done = subprocess.run(
            [*java.MAVEN, "test", "-Dtest=ProgramsTest#severalLanguages"],
            cwd=java.SDK, env=java.environment() | environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]

    printed = _run([sys.executable, str(EXAMPLE / "redrive.py")], environment)
    assert printed.splitlines() == ["dead: nobody, no such address", "redriven: 1", "sent to nobody after all"]

    counts = runpy.run_path(str(EXAMPLE / "count_tasks.py"))["counts"]
    assert counts(spark, servers, TOPIC) == {"ann": 1, "bob": 1, "nobody": 2}


def _run(command: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=120, check=True).stdout
