"""L5: the cluster as one broker, for endpoints that any node serves.

It routes requests to their leaders, shares connections and batches between callers, and keeps their leases. It knows
nothing of HTTP or gRPC.
"""
