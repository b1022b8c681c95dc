"""L5: the endpoints of a broker.

Each translates one protocol into operations and their replies back; decisions belong to `broker/` and `gateway/`.
"""
