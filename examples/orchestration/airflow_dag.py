"""An Airflow 3 DAG that archives a topic every ten minutes: the task ends when the lake has everything.

It may run again at any time, and a run that dies is taken over by the next one. The exit code is not 0 when something
failed, and then the task is retried.
"""

import json
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import dag, task

COMMAND = [
    *("flotilla", "archive", "run", "--once", "--json"),
    *("--topic", "orders", "--lake", "s3://bucket/lake", "--servers", "broker-1:7600,broker-2:7600"),
]


@dag(schedule="*/10 * * * *", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False, max_active_runs=1)
def archive_orders() -> None:
    @task(retries=3, retry_delay=timedelta(minutes=1))
    def archive() -> dict[str, Any]:
        """Returns what was archived, for tasks downstream."""
        done = subprocess.run(COMMAND, check=True, stdout=subprocess.PIPE, text=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    archive()


archive_orders()
