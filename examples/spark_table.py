"""Write a table to a topic with Spark, and read topics as tables: exactly once, without a jar.

Needs `pip install "flotilla-mq[spark]"` and Java 17. Run a broker (`flotilla serve`), then
`python examples/spark_table.py`.
"""

import os

from pyspark.sql import SparkSession

import flotilla.spark  # registers the format
from flotilla import Client

SERVERS = os.environ.get("FLOTILLA_SERVERS", "localhost:7600")
TOPIC = "example-spark"

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
flotilla.spark.register(spark)

with Client(SERVERS) as client:
    client.create_topic(TOPIC, partitions=2, if_not_exists=True)

    # The key chooses the partition; all rows become visible together when the job ends.
    rows = spark.range(100).selectExpr("cast(id % 10 as string) as key", "cast(id as string) as value")
    rows.write.format("flotilla").option("servers", SERVERS).option("topic", TOPIC).mode("append").save()

    orders = spark.read.format("flotilla").option("servers", SERVERS).option("subscribe", TOPIC).load()
    print("rows:", orders.count())
    print("keys:", orders.select("key").distinct().count())

    # The same records for any other consumer.
    with client.queue(TOPIC, group="billing") as queue:
        messages = queue.poll(max_messages=100)
        queue.ack(messages)
    print("first message of a worker:", messages[0].text.isdigit())

    client.delete_topic(TOPIC)
spark.stop()
