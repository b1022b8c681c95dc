"""Flotilla for Spark: topics as tables and streams, with no jar.

    import flotilla.spark

    spark.read.format("flotilla").option("subscribe", "orders").load()

Importing it makes the format known to the session that is active; `register` does so for any other. Spark also finds
the format by itself, through the module `pyspark_flotilla`, in sessions for which neither was done.
"""

from flotilla.spark.registration import register, register_active

__all__ = ["register"]

register_active()
