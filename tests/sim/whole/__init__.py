"""The whole product in simulated time."""
