"""The whole product in simulated time: real brokers and real clients on one integer."""
