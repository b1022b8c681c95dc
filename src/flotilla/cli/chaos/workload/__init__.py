"""The clients of a chaos run: producers, consumers, readers and transactions that keep books of every answer."""
