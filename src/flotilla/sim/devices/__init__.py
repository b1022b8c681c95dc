"""Simulated devices: network, disk, clocks, and the event queue that turns them."""
