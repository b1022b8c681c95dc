"""L2: Raft, a state machine and pending replies make one replica, without I/O.

`ports.py` names what a replica and its driver need from storage and from a state machine.
"""
