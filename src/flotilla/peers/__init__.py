"""L3: links between nodes.

One connection each way per pair of nodes carries the messages of all groups. Nothing here knows what the messages
mean.
"""
