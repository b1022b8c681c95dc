"""The gRPC and HTTP endpoints of three brokers."""
