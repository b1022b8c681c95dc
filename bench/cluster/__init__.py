"""Clusters in motion: failover, moves of partitions, and readers at all replicas."""
