"""L4: one method per operation, neutral to transport.

`partition/`, `queue/`, `stream/` and `cluster/` serve the operations, `observability/` reports on them. Endpoints
translate protocols into these operations; they live in `frontends/`.
"""
