"""The protocol between nodes: frames that carry the messages of many Raft groups (proto/peer.proto).

Sockets belong to `peers/`.
"""
