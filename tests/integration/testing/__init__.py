"""The broker that users get for their own tests."""
