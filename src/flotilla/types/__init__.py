"""L0: the words every other layer speaks. Values only, no behaviour that waits, reads or writes."""
