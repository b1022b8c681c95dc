"""`flotilla schema`, `flotilla archive` and `flotilla pipeline`."""
