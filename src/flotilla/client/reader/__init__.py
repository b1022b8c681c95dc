"""Readers by offset: fetches, positions, the choice of a replica, and the messages they return."""
