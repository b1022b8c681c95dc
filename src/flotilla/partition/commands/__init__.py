"""The commands in the log of a partition, beside record batches: one value type per command, and its bytes.

Applying a command belongs to `state/`; deciding to propose one belongs to `leader/`.
"""
