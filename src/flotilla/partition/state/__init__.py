"""The replicated state of a partition: offsets, producers, idempotency keys, groups and transactions.

Committed entries go in, replies come out, and snapshots go both ways. What only a leader knows lives in `leader/`.
"""
