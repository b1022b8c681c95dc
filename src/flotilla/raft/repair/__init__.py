"""Repair of a replica that lost data: entries of any member, or a snapshot."""
