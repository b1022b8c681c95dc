"""A topic that is deleted, created again under its name, and grown, while clients of all kinds live on it."""
