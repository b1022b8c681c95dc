"""The client: one core without sockets, clocks or threads, and two thin shells over it, `aio` and `sync`."""
