"""Observability of a node: the table of metrics, logs, histograms and process usage.

`broker/observability` takes the broker's measurements.
"""
