"""`flotilla archive` and `flotilla pipeline`."""
