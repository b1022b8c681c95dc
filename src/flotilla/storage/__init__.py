"""L3: the storage of a node: one journal for all groups, and segments and snapshots of each group.

`store.py` is the only interface of this package; `posix.py` is the real disk. Nothing here knows of networks or
threads.
"""
