"""Administration through the client: groups, single messages and dead letters."""
