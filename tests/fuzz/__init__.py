"""Fuzzing of everything that decodes bytes of strangers: `make fuzz`."""
