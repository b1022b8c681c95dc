"""L2: one replica: Raft, a state machine and pending replies, without I/O.

`ports.py` names what a replica and its driver need from storage and from a state machine.
"""
