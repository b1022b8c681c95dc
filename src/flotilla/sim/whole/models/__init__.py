"""Models of partitions and metadata beside the real brokers of a run."""
