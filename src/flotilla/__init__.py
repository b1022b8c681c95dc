"""Flotilla: a message queue in which every partition is its own Raft group."""

__version__ = "0.1.0"
