"""The HTTP door of a node: health, readiness and metrics."""
