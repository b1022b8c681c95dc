"""Columns out of the values of records: JSON, Avro and Protobuf, decoded in the tasks of a read."""
