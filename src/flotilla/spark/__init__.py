"""Flotilla for Spark: topics as tables and streams, with no jar.

    import flotilla.spark

    spark.read.format("flotilla").option("subscribe", "orders").load()

Importing this package registers the format with the active session; `register` does so for any other. Spark also finds
the format by itself, through the module `pyspark_flotilla`. `attach` makes views of all topics, `flotilla_stream` one
stream of archive and log.
"""

from flotilla.spark.registration import register, register_active
from flotilla.spark.tables import attach, flotilla_stream

__all__ = ["attach", "flotilla_stream", "register"]

register_active()
