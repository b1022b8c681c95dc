"""L1: consensus, pure.

One replica's part in one Raft group lives here: elections, replication, membership, reads and repair. It knows
nothing of queues, disks, sockets or clocks; messages and ticks go in, a Ready comes out.
"""
