"""Recurring messages: their times, their runs at the metadata's leader, and the operations on them."""
