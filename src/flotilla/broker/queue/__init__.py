"""Queue groups at the leader of a partition: polls, deliveries, settlements, rate limits and dead letters.

The rules of delivery are pure and live in `partition/leader`; these modules connect them to the log and to waiting
clients.
"""
