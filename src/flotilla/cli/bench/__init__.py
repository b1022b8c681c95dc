"""`flotilla bench`: workloads through the public client beside probes of the machine."""
