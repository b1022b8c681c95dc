"""The clients of a simulated cluster, each kind with the promises that it may expect."""
