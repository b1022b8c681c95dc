"""What breaks in a run of the whole product, and what an operator does to it."""
