"""L3: the disk of a node: one journal for all groups, segments behind it, snapshots beside it.

`store.py` is the only face of this package; `posix.py` is the real disk. Networks and threads are not known here.
"""
