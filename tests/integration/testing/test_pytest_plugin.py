"""The fixtures that an installed Flotilla gives to the tests of an application."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
TESTS = """
def test_a_delay(flotilla_broker, flotilla_client):
    flotilla_client.produce("mails", b"ann", delay_ms=3_600_000)
    with flotilla_client.queue("mails", group="senders") as queue:
        assert queue.poll(wait_ms=0) == []
        flotilla_broker.advance(hours=1)
        assert [message.payload for message in queue.poll()] == [b"ann"]

def test_the_next_test_has_a_broker_of_its_own(flotilla_client):
    assert flotilla_client.topics() == []
"""


def run_pytest(folder: Path, *words: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_tests_of_an_application_use_the_fixtures(tmp_path):
    (tmp_path / "test_mails.py").write_text(TESTS)
    assert "2 passed" in run_pytest(tmp_path)
    assert "flotilla_broker" in run_pytest(tmp_path, "--fixtures")


def test_pytest_finds_them_by_itself_and_loads_nothing_else():
    facts = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert facts["project"]["entry-points"]["pytest11"] == {"flotilla": "flotilla.pytest_plugin"}
    loaded = "import sys, flotilla.pytest_plugin; print('flotilla.testing' in sys.modules or 'grpc' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run([sys.executable, "-c", loaded], env=env, capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
