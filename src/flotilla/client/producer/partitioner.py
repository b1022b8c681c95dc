"""The partitioner: the partition of a record, equal in every SDK and every version.

A keyed record goes to CRC32C(key) mod N, with the checksum as an unsigned number. Every SDK has that checksum already,
because every batch carries one, and its low bits are even enough for any N. N is the number of partitions that the
topic was created with: when it gets more, no key moves, so the order of a key and its idempotency keys hold.
"""

from random import Random

from flotilla.codec.checksum import crc32c


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a keyed record."""
    assert partitions > 0
    return crc32c(key) % partitions


class StickyPartition:
    """The partition of records without a key: the same one until a batch is full or leaves, then the next.

    Batches stay large that way, and a busy producer still spreads its records evenly.
    """

    __slots__ = ("_current",)

    def __init__(self, chance: Random) -> None:
        # Random, so that producers which start together do not start with the same partition.
        self._current = chance.getrandbits(31)

    def current(self, partitions: int) -> int:
        return self._current % partitions

    def move(self) -> None:
        self._current += 1
