"""The TCP protocol between clients and brokers: frames, and one row per request or reply (proto/client.proto)."""
