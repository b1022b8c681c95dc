"""Members of stream groups: joining, heartbeats, owned partitions, progress and commits."""
