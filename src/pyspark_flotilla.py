"""What Spark looks for: a top-level module whose name begins with `pyspark_`, with a source by this name in it."""

from flotilla.spark.source import FlotillaSource as DefaultSource

__all__ = ["DefaultSource"]
