"""A short run of `make fuzz` without coverage: whole examples, and the same damaged at random from a fixed seed."""

from random import Random

import pytest

from tests.fuzz.targets import TARGETS, Target, attempt

COUNT = 150


def damaged(example: bytes, random: Random) -> bytes:
    data = bytearray(example)
    for _ in range(random.choice((1, 1, 2, 4))):
        at, size = random.randrange(len(data) + 1), random.randrange(1, 9)
        with_bytes = random.choice((b"\xff" * size, bytes(size), random.randbytes(size), random.randbytes(1), b""))
        data[at : at + random.choice((0, size))] = with_bytes
    return bytes(data)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_nothing_but_typed_errors(target: Target) -> None:
    random = Random(7)
    examples = target.examples()
    assert examples
    for example in examples:
        attempt(target, example)
    for _ in range(COUNT):
        attempt(target, damaged(random.choice(examples), random))
