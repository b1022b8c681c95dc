"""What must always hold, one file per subject. Each checker is told what happens and raises Violation.

They keep their own shadow from what nodes save, send and apply, and share no code with the product
where it decides: a wrong quorum must not be judged by the same wrong quorum.
"""
