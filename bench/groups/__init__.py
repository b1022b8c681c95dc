"""Queue and stream groups on three brokers: handlers, pauses of the garbage collector, delays, rebalances."""
