"""The HTTP door: tasks, everything a client can do as JSON, and how the node is."""
