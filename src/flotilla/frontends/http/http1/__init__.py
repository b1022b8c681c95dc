"""HTTP/1.1 on one connection: heads, bodies and pipelining, within bounds of size and time.

Nothing here knows Flotilla.
"""
