"""What the log of a partition can hold beside record batches: one value type per command, and its bytes.

Applying a command belongs to `state/`; deciding to propose one belongs to `leader/`.
"""
