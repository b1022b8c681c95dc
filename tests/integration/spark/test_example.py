"""The example script for Spark runs to its end against the cluster, in a process and a session of its own."""

import os
import subprocess
import sys
from pathlib import Path

from flotilla.cli.local_cluster import LocalCluster

ROOT = Path(__file__).parents[3]


def test_the_example_runs_to_its_end(cluster: LocalCluster, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "examples/spark_table.py")],
        cwd=tmp_path,
        env={**os.environ, "FLOTILLA_SERVERS": ",".join(cluster.servers)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["rows: 100", "keys: 10", "first message of a worker: True"]
