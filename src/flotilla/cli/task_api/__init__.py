"""The task API over HTTP, for the commands that use it."""
