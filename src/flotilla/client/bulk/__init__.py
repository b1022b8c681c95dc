"""Whole batches and many partitions at once, for bulk readers and writers such as Spark."""
