"""What a stored entry holds for readers, in the few numbers that storage indexes by."""

from dataclasses import dataclass


@dataclass(slots=True)
class Span:
    """`count` records from `base_offset` on, the newest of `timestamp_ms`. Made for every entry: frozen is slower."""

    base_offset: int
    count: int
    timestamp_ms: int
