"""A whole cluster in one process from one integer: simulated network, disks, clocks, faults, checkers."""
