"""Operations on the cluster: topics, placement, moves, registration of nodes, and decisions of transactions.

Most of it runs at the leader of the metadata. Serving one partition belongs to `broker/partition`.
"""
