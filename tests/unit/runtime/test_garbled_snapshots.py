"""A garbled snapshot raises CorruptionError and nothing else: a lying peer can send one."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from flotilla.metadata.snapshot import decode_snapshot as decode_metadata
from flotilla.partition.state.snapshot import decode_snapshot as decode_partition
from flotilla.types.errors import CorruptionError

UNIT = Path(__file__).parents[1]
COUNT = 1_500


def garbled(sample: bytes, random: Random) -> bytes:
    data = bytearray(sample)
    for _ in range(random.choice((1, 1, 2, 4))):
        at, size = random.randrange(len(data)), random.randrange(1, 9)
        with_bytes = random.choice((b"\xff" * size, bytes(size), random.randbytes(size), random.randbytes(1), b""))
        data[at : at + random.choice((0, size))] = with_bytes
    return bytes(data)


@pytest.mark.parametrize(
    ("decode", "recorded"),
    [(decode_metadata, "metadata/recorded_snapshot.hex"), (decode_partition, "partition/recorded_bytes.hex")],
    ids=["metadata", "partition"],
)
def test_garbled_bytes_are_corruption_and_nothing_else(decode: Callable[[bytes], object], recorded: str) -> None:
    # A partition's snapshot is the longest of the forms that are recorded together.
    forms = (UNIT / recorded).read_text().split("\n\n") if "bytes" in recorded else [(UNIT / recorded).read_text()]
    sample = max((bytes.fromhex("".join(form.split())) for form in forms), key=len)
    decode(sample)
    random = Random(5)
    refused = 0
    for _ in range(COUNT):
        try:
            decode(garbled(sample, random))
        except CorruptionError:
            refused += 1
    assert refused > COUNT // 2
