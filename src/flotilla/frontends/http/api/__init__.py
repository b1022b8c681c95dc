"""The operations of the HTTP endpoint: tasks, records, messages, groups, topics, dead letters and events."""
