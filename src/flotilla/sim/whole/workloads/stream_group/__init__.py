"""Members of a stream group, and what they may expect."""
