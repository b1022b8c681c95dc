"""Producers: records into batches, batches in order to their partitions, and receipts back."""
