"""Why a message is where it is: its delivery state and its history, for people.

These modules only read `state/` and `leader/`.
"""
