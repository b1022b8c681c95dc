"""The checkers: what must always hold, one file per subject.

Each checker sees what nodes save, send and apply, keeps its own shadow of it, and raises Violation. Checkers share no
deciding code with the product: a wrong quorum must not be judged by the same wrong quorum.
"""
