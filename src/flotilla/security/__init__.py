"""Encryption and certificates: what keeps strangers out of the connections of nodes and clients.

`certificates` reads whom a certificate names, `contexts` turns files into what the `ssl` module needs, `tls_connection`
encrypts one connection, `tls_endpoints` accepts and dials them, `node_tls` has all of it for one node, and `authority`
issues certificates for clusters without a certificate authority of their own.
"""
