"""What the cluster decides: topics, placement, moves, registration of nodes, and outcomes of transactions.

Most of it runs at the leader of the metadata. Serving one partition belongs to `broker/partition`.
"""
