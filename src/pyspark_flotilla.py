"""The entry point that Spark looks for: a top-level module named `pyspark_*` with a `DefaultSource`."""

from flotilla.spark.source import FlotillaSource as DefaultSource

__all__ = ["DefaultSource"]
