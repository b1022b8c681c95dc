"""The Spark source and sink, as ratios to what Spark does in the same run without them."""

from bench.spark.area import measure

__all__ = ["measure"]
