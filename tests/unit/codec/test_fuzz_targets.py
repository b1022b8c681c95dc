"""A short run of `make fuzz` without coverage: whole examples, and the same damaged at random from a fixed seed."""

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.targets import TARGETS, Target, attempt

COUNT = 150
#: Damaged snapshots for each kind: enough that each of the decoder's rules refuses some.
SNAPSHOT_COUNT = 700


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


def snapshot_outcomes() -> dict[str, set[str]]:
    """What decoding damaged snapshots ends with; nothing: they are taken for whole."""
    found: dict[str, set[str]] = {}
    for target in TARGETS:
        if not target.name.startswith("snapshots"):
            continue
        random, examples = Random(11), target.examples()
        for _ in range(SNAPSHOT_COUNT):
            try:
                target.run(damaged(random.choice(examples), random))
            except Exception as error:
                found.setdefault(target.name, set()).add(type(error).__name__)
    return found


def test_damaged_snapshots_are_corrupt_and_nothing_else() -> None:
    """Also without asserts: a decoder does not rely on them to end."""
    expected = {"snapshots of the metadata": {"CorruptionError"}, "snapshots of a partition": {"CorruptionError"}}
    assert snapshot_outcomes() == expected
    script = "from tests.unit.codec.test_fuzz_targets import snapshot_outcomes as found; print(found())"
    words = [sys.executable, "-O", "-c", script]
    done = subprocess.run(words, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True)
    assert done.stdout == f"{expected}\n"
