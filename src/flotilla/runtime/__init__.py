"""L3: a node at work: the driver, its threads and its clock."""
