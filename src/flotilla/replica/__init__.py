"""L2: raft + a state machine + pending replies = one replica, without I/O."""
