"""The gRPC contract (proto/flotilla.proto): its messages into requests, and replies into its messages.

Serving the calls belongs to `frontends/grpc`.
"""
