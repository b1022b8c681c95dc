"""The partition of a key is the same in every SDK, for ever: these vectors are protocol."""

from random import Random

import pytest

from flotilla.client.producer.partitioner import StickyPartition, partition_of

#: Key, CRC32C of it, and the partition among 3, 8 and 100.
VECTORS = [
    (b"", 0x00000000, 0, 0, 0),
    (b"a", 0xC1D04330, 0, 0, 76),
    (b"123456789", 0xE3069283, 0, 3, 55),
    (b"order-42", 0xF2452E86, 2, 6, 66),
    (b"\x00\xff", 0x5C1C2483, 2, 3, 27),
]


@pytest.mark.parametrize(("key", "checksum", "of_3", "of_8", "of_100"), VECTORS)
def test_vectors(key, checksum, of_3, of_8, of_100):
    assert partition_of(key, 2**32) == checksum
    assert [partition_of(key, count) for count in (1, 3, 8, 100)] == [0, of_3, of_8, of_100]


@pytest.mark.parametrize("partitions", [2, 3, 4, 8, 10, 16, 100])
@pytest.mark.parametrize("pattern", ["%d", "user-%d", "%08x", "order/%d/eu"])
def test_keys_that_people_use_are_spread_evenly(partitions, pattern):
    counts = [0] * partitions
    keys = 200 * partitions
    for number in range(keys):
        counts[partition_of((pattern % number).encode(), partitions)] += 1
    assert min(counts) > 100
    assert max(counts) < 300


def test_records_without_a_key_stay_together_until_their_batch_leaves():
    sticky = StickyPartition(Random(1))
    first = sticky.current(3)
    assert sticky.current(3) == first
    seen = []
    for _ in range(3):
        seen.append(sticky.current(3))
        sticky.move()
    assert sorted(seen) == [0, 1, 2]


def test_producers_begin_at_different_partitions():
    assert {StickyPartition(Random(seed)).current(4) for seed in range(40)} == {0, 1, 2, 3}
