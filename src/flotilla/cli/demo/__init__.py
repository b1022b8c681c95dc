"""`flotilla demo`: three brokers, `kill -9` of a leader, and Spark at the end."""
