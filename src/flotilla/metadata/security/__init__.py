"""Users and grants in the metadata: their commands, and their table."""
