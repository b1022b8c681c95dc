"""What a node reports about itself: the table of metrics, logs, histograms and process usage.

Taking the measurements of the broker belongs to `broker/observability`.
"""
