"""L3: the node's disk: one journal for all groups, segments behind it, snapshots beside it."""
