"""The work queue under chaos notices what no kill explains."""

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from flotilla.cli.chaos.storm import Plan, Storm
from flotilla.cli.demo.ledger import Place
from flotilla.cli.local_cluster import LocalCluster

PLAN = Plan(run_s=1, every_s=1, rate=1, is_quiet=True, with_audit=False, over_http=False)


class Processes(LocalCluster):
    """Each node is a process that waits for the end of its input, and ends as it was told."""

    def start_node(self, node: int, *, is_detached: bool = False) -> None:
        command = "import sys; sys.stdin.read(); sys.exit(7)"
        chosen = self.nodes[node]
        chosen.process = subprocess.Popen([sys.executable, "-S", "-c", command], stdin=subprocess.PIPE)
        chosen.pid = chosen.process.pid

    def end(self, node: int) -> None:
        process = self.nodes[node].process
        assert process is not None
        process.communicate()


@pytest.fixture
def cluster(tmp_path: Path) -> Any:
    with Processes.on_free_ports(tmp_path) as processes:
        for node in processes.nodes:
            processes.start_node(node)
        yield processes


def test_a_broker_that_ends_by_itself_is_noticed_and_started_again(
    cluster: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    storm = Storm(cluster, cast("Any", None), PLAN)
    storm.ledger.acknowledged[1] = Place(0, 0)
    storm.ledger.handled[1] += 1
    storm.look()
    assert storm.findings().is_good
    cluster.end(2)
    storm.look()
    storm.look()
    assert (storm.findings().ended, storm.findings().is_good) == (1, False)
    assert storm.ledger.is_balanced
    assert "node 2 ended by itself with 7" in capsys.readouterr().err
    assert len(cluster.running) == 3


def test_a_broker_that_was_killed_is_left_to_its_killer(cluster: Processes) -> None:
    storm = Storm(cluster, cast("Any", None), PLAN)
    storm._victim = 3
    cluster.nodes[3].kill()
    storm.look()
    assert storm.findings().ended == 0
    assert len(cluster.running) == 2
