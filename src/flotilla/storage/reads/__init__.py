"""Reads of logs: for readers on the loop, and in the background."""
