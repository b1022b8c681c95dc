"""L1: the state machine of one partition, pure.

`commands/` is what the log can hold, `state/` what every replica remembers, `leader/` what one leader knows for one
term, and `explain/` what people are told about a message. Consensus, storage and the network are not known here.
"""
