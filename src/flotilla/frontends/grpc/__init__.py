"""The gRPC endpoint: the contract of proto/flotilla.proto, served by any node and by a proxy."""
