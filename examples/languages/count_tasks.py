"""Counts the records of each task with Spark: one for each time that it was enqueued or redriven."""

import os
from typing import Any


def counts(spark: Any, servers: str, topic: str) -> dict[str, int]:
    table = spark.read.format("flotilla").option("servers", servers).option("subscribe", topic).load()
    tasks = table.selectExpr("cast(value as string) as task").groupBy("task").count()
    return {row["task"]: row["count"] for row in tasks.collect()}


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    import flotilla.spark

    session = SparkSession.builder.master("local[2]").getOrCreate()
    flotilla.spark.register(session)
    found = counts(session, os.environ.get("FLOTILLA_SERVERS", "127.0.0.1:7600"), os.environ.get("TOPIC", "mails"))
    print(found)
    session.stop()
