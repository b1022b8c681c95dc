"""L4: one method per operation, neutral to transport; routing to the leader, admission."""
