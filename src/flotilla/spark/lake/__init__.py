"""The archive on disk: Parquet files, and the manifests that list them.

The pipelines that write and read it are in `spark/pipelines`.
"""
