"""L2: bytes to values and back. Pure; the only importer of generated protobuf."""
