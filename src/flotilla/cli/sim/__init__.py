"""`flotilla sim`: simulated clusters under faults."""
