"""Explanations for people: the delivery state of a message, its history, and descriptions of groups.

These modules only read `state/` and `leader/`.
"""
