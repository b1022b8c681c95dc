"""L1: the state machine of one partition, pure.

`commands/` is what the log can hold, `state/` what every replica remembers, `leader/` what one leader knows for one
term, and `explain/` why a message is where it is. Knows nothing of consensus, storage and the network.
"""
