"""One hosted partition: produce, fetch, follower reads, long polls, retention and its part in transactions.

Queue groups of the partition live in `broker/queue`.
"""
