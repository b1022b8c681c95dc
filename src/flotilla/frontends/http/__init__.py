"""The HTTP endpoint: tasks, every client operation as JSON, and the state of the node."""
