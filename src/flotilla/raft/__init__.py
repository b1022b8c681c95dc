"""L1: consensus, pure. Knows nothing of queues, disks, sockets or clocks."""
