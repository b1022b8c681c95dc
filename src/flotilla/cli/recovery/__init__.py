"""Backups, what is made of them, and recovery of a node that is left alone."""
