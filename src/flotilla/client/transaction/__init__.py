"""Transactions: records and acknowledgements that become visible together."""
