"""The archive of topics: one Delta table for each, in a folder or an object store.

`archive` copies topics into it without Spark; `flotilla.spark.pipelines` does the same with Spark's executors, and
queries it. Needs the extra `lake`.
"""
