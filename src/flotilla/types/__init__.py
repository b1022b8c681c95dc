"""L0: the words that every other layer speaks.

Ids, records, settings, errors, limits and operations live here: values and their rules. Nothing here waits, reads,
writes or knows another layer.
"""
