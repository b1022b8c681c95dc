"""The example script for Spark runs to its end against the cluster, in a process and a session of its own.

It is run by the interpreter of a virtual environment that is not activated: Spark's workers must use the same one.
"""

import os
import subprocess
import sys
from pathlib import Path

from flotilla.cli.local_cluster import LocalCluster

ROOT = Path(__file__).parents[3]


def test_the_example_runs_to_its_end(cluster: LocalCluster, tmp_path: Path) -> None:
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYSPARK_")}
    ran = subprocess.run(
        [sys.executable, str(ROOT / "examples/spark_table.py")],
        cwd=tmp_path,
        env={**environment, "FLOTILLA_SERVERS": ",".join(cluster.servers)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["rows: 100", "keys: 10", "first message of a worker: True"]
