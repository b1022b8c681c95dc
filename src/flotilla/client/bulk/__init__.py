"""Encoded batches and offsets of many partitions at once, for bulk readers and writers such as Spark."""
