"""L5: the Python client.

`Client` and `AsyncClient` are thin shells over cores without sockets, clocks or threads. Modules and folders whose
name starts with an underscore are private to the client and the gateway; everything that users need is imported from
`flotilla`.
"""
