"""Durations as arguments: every `*_ms` argument takes milliseconds or a timedelta."""

from datetime import timedelta
from typing import TypeAlias

#: Milliseconds, or a timedelta.
Duration: TypeAlias = int | timedelta


def milliseconds(duration: Duration) -> int:
    """A duration in whole milliseconds."""
    return duration // timedelta(milliseconds=1) if isinstance(duration, timedelta) else duration
