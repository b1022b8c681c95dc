"""The client's connection to a cluster: session, routes, calls, timers, and the network and thread that drive them.

The session is sans-I/O. Producers and consumers build on it in the folders beside this one.
"""
