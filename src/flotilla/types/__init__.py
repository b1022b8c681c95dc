"""L0: the vocabulary of every other layer.

Ids, records, settings, errors, limits and operations live here: values and their rules. Nothing here waits, reads,
writes or knows another layer.
"""
