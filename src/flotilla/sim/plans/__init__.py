"""What a seed stands for: the plan of a run, and what its workload adds to it."""
