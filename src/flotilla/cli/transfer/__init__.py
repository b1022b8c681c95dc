"""Files in and out: the records of a topic, and the definitions of a cluster."""
