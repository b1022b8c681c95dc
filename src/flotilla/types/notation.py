"""The notation of durations, sizes and watermarks: `100ms`, `30s`, `5m`; `64KiB`, `1MiB`; `5%`.

A bare number counts milliseconds or bytes. Numbers are whole: nothing here rounds, and a formatted number parses to
itself. Formatting takes the largest unit that divides.
"""

import re
from collections.abc import Mapping

from flotilla.types.slotted import frozen

DURATION_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SIZE_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

_PERCENT = "%"

#: Longer numbers are refused before they are converted: no setting is that large.
_QUANTITY = re.compile(r"([0-9]{1,18}) ?([A-Za-z]*)")


def parse_duration(text: str) -> int:
    """Milliseconds. Raises ValueError."""
    return _parse(text, DURATION_UNITS, "500ms, 10s or 2m")


def format_duration(duration_ms: int) -> str:
    return _format(duration_ms, DURATION_UNITS)


def parse_size(text: str) -> int:
    """Bytes. Raises ValueError."""
    return _parse(text, SIZE_UNITS, "512KiB or 1MiB")


def format_size(size_bytes: int) -> str:
    return _format(size_bytes, SIZE_UNITS)


def _parse(text: str, units: Mapping[str, int], examples: str) -> int:
    match = _QUANTITY.fullmatch(text)
    if match is None or (match[2] and match[2] not in units):
        raise ValueError(f"not a whole number with a known unit, as in {examples}")
    return int(match[1]) * (units[match[2]] if match[2] else 1)


def _format(value: int, units: Mapping[str, int]) -> str:
    assert value >= 0
    unit = next(iter(units))
    for name, factor in units.items():
        if value and value % factor == 0:
            unit = name
    return f"{value // units[unit]}{unit}"


@frozen
class Watermark:
    """How much of a disk is to stay free. One of both is 0; both: there is no watermark."""

    size_bytes: int = 0
    percent: int = 0

    def __str__(self) -> str:
        return f"{self.percent}{_PERCENT}" if self.percent else format_size(self.size_bytes)

    def of_disk(self, total_bytes: int) -> int:
        """In bytes, on a disk of this size."""
        return self.size_bytes or total_bytes * self.percent // 100


def parse_watermark(text: str) -> Watermark:
    """Raises ValueError."""
    if text.endswith(_PERCENT):
        return Watermark(percent=parse_size(text[: -len(_PERCENT)]))
    return Watermark(parse_size(text))
