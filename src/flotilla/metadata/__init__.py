"""L1: the cluster's own state machine, pure.

Brokers, topics, placement, stream groups and the decisions of transactions live here. Raft, partitions and I/O do
not.
"""
