"""Single parts of the product, beside the raw disk: storage, consensus, queue engine, assignment, simulator."""
