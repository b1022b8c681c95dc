"""Plans: what a seed stands for. `run` is the plan of every run, the others what one workload adds to it."""
