"""Columns out of the values of records: JSON, Avro and Protobuf, decoded by archives and by tasks of Spark."""
