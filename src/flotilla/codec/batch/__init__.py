"""The record batch: one format for the wire, the disk and replication.

Header, columns, compression, and how to check, cut, view and write a batch. Frames and requests live beside it.
"""
