"""Reports of a broker: request metrics, the values of a scrape, the status pages and the event log.

The table of metrics and the log format live in `runtime/observability`.
"""
