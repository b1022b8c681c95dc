"""Who may use a broker: users and grants, log-ins, and the guard in front of its operations."""
