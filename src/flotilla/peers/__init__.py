"""L3: links between nodes.

One connection each way per pair of nodes carries the messages of all groups. What the messages mean is not known
here.
"""
