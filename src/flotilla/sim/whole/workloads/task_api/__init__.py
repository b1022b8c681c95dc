"""Clients of the task API over HTTP, and what they may expect."""
