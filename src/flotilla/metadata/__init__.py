"""L1: the cluster's own state machine: brokers, topics, and which broker holds which replica. Pure."""
