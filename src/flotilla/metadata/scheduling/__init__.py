"""Schedules of recurring messages in the metadata: their commands, and their table."""
