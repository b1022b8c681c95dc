"""`flotilla chaos`: a work queue while its leaders are killed, and the check at the end."""
