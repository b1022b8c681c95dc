"""Which partition a record belongs to: the same answer in every SDK, for ever.

A keyed record goes to CRC32C(key) mod N, the checksum taken as an unsigned number. Every SDK has that
checksum already, because every batch carries one, and its low bits are even enough for any N. When a topic
gets more partitions, keys move.
"""

from random import Random

from crc32c import crc32c


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a keyed record."""
    assert partitions > 0
    return crc32c(key) % partitions


class StickyPartition:
    """The partition of records without a key: the same one until a batch is full or leaves, then the next.

    Batches stay large that way, and the records of a busy producer are spread evenly all the same.
    """

    __slots__ = ("_current",)

    def __init__(self, chance: Random) -> None:
        # Producers that begin together should not begin at the same partition.
        self._current = chance.getrandbits(31)

    def current(self, partitions: int) -> int:
        return self._current % partitions

    def move(self) -> None:
        self._current += 1
