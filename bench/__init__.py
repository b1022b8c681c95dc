"""Benchmarks: each figure is a ratio to a probe of the same machine in the same run."""
