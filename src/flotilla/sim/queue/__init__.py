"""The workload of queue groups and transactions: producers, consumers and transactions against simulated leaders."""
