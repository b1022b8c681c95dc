"""Flotilla for Spark: topics as tables and streams, with no jar.

    import flotilla.spark

    spark.read.format("flotilla").option("subscribe", "orders").load()

Importing this package registers the format with the active session; `register` does so for any other. Spark also finds
the format by itself, through the module `pyspark_flotilla`.
"""

from flotilla.spark.registration import register, register_active

__all__ = ["register"]

register_active()
