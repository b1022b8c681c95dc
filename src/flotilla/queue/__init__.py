"""L1: the state machine of one partition, and what its leader decides before it proposes. Pure."""
