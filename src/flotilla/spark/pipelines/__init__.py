"""Pipelines: ordinary PySpark over topics, each a small module behind a verb of `flotilla pipeline`."""
