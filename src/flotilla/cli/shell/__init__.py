"""`flotilla shell`: an interactive producer and consumer."""
