"""The disk of this node, as operators see it: its room, and reads that it does not return."""
