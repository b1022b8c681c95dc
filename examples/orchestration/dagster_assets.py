"""The lake of a topic as a Dagster asset, archived every ten minutes, with its numbers as metadata.

It may run again at any time, and a run that dies is taken over by the next one. The exit code is not 0 when something
failed, and then the asset is retried.
"""

import json
import subprocess

import dagster as dg

COMMAND = [
    *("flotilla", "archive", "run", "--once", "--json"),
    *("--topic", "orders", "--lake", "s3://bucket/lake", "--servers", "broker-1:7600,broker-2:7600"),
]


@dg.asset(retry_policy=dg.RetryPolicy(max_retries=3, delay=60))
def orders_lake() -> dg.MaterializeResult:
    """Everything that was in the topic when the run began is in the Delta table."""
    done = subprocess.run(COMMAND, check=True, stdout=subprocess.PIPE, text=True)
    return dg.MaterializeResult(metadata=json.loads(done.stdout))


definitions = dg.Definitions(
    assets=[orders_lake],
    schedules=[dg.ScheduleDefinition(name="archive_orders", target=[orders_lake], cron_schedule="*/10 * * * *")],
)
