"""L1: the cluster's own state machine, pure.

Owns brokers, topics, placement, stream groups and the decisions about transactions. Knows nothing of Raft, partitions
and I/O.
"""
