"""L3: the runtime of a node: the driver, its threads, its timers and its clock.

The driver saves, syncs, sends, applies and replies. It reaches storage and links through ports only.
"""
