"""The archive on disk: Parquet files and the manifests that say which of them count.

Pipelines that write and read it live in `spark/pipelines`.
"""
