"""`flotilla chaos`: a work queue while its leaders are killed, and the comparison at the end."""
