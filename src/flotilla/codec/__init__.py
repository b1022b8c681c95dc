"""L2: bytes to values and back, pure.

This is the only importer of generated protobuf. `batch/` is the format of records, `client/` and `peer/` the TCP
protocols, `grpc/` the public contract. What a value means is not decided here.
"""
