"""The workload of the plain log: clients append and read, and one history must explain what they saw."""
