"""L3: a node at work: the driver, its threads, its timers and its clock.

The driver saves, syncs, sends, applies and replies. Storage and links are reached through ports only.
"""
