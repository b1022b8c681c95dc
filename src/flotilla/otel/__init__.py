"""OpenTelemetry for the Python client: traces and metrics of everything that sends, receives, processes and settles.

Nothing of it is imported by the client: a program without `FlotillaInstrumentor().instrument()` pays nothing.
"""

from flotilla.otel.instrumentor import FlotillaInstrumentor

__all__ = ["FlotillaInstrumentor"]
