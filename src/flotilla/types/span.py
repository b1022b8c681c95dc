"""The offsets and the time of a stored entry, by which storage indexes it."""

from dataclasses import dataclass


@dataclass(slots=True)
class Span:
    """`count` records from `base_offset` on, the newest of `timestamp_ms`. Made for every entry: frozen is slower."""

    base_offset: int
    count: int
    timestamp_ms: int
