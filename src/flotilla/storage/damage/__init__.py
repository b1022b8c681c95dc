"""Entries that a log has lost, and those of them that were fetched again."""
