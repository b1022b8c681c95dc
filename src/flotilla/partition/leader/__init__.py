"""The memory of a partition's leader for one term, beside the replicated state.

Leases, ready messages, delays, order by key, rate limits and the admission of batches live here. Nothing here is
replicated: a new leader starts with an empty one.
"""
