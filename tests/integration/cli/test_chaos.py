"""A work queue whose leaders are killed, in short; `make chaos` is the long one."""

import json

import pytest

from tests.integration.cli.test_processes import command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_nothing_is_lost_while_leaders_are_killed():
    result = command("chaos", "--for", "10s", "--every", "3s", "--rate", "60", "--json", timeout_s=240)
    assert result.returncode == 0, result.stderr
    findings = json.loads(result.stdout)
    assert findings["is_good"]
    assert findings["kills"] >= 2
    assert findings["acknowledged"] > 200
    assert (findings["lost"], findings["dead_wrongly"]) == (0, 0)
    assert findings["dead_letters"] >= 1
