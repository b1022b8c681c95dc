"""Consumers of queue groups: polls, leases and their renewal, settlements and messages."""
