"""A topic that keeps few messages, for a group that holds them and one that does not."""
