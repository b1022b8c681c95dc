"""L5: the doors of a broker. Each turns one protocol into requests to the service and replies back, nothing else."""
