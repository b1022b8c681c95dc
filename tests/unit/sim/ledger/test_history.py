"""The history checker finds each planted lie and accepts what is true."""

from random import Random

import pytest

from flotilla.sim.ledger.history import APPEND, DONE, NOT_DONE, READ, UNKNOWN, History, Operation, check_history
from flotilla.sim.ledger.machine import fold


def digest_of(*identities: int) -> int:
    digest = 0
    for identity in identities:
        digest = fold(digest, identity)
    return digest


def append(identity: int, start: int, end: int, position: int, outcome: int = DONE) -> Operation:
    return Operation(identity, APPEND, start, end, outcome, position)


def read(identity: int, start: int, end: int, *seen: int, length: int | None = None) -> Operation:
    return Operation(identity, READ, start, end, DONE, len(seen) if length is None else length, digest_of(*seen))


def unknown(identity: int, start: int) -> Operation:
    return Operation(identity, APPEND, start)


def refused(identity: int, start: int, end: int) -> Operation:
    return Operation(identity, APPEND, start, end, NOT_DONE)


GOOD: dict[str, tuple[list[Operation], list[int]]] = {
    "nothing": ([], []),
    "in turn": ([append(1, 0, 5, 0), read(2, 6, 8, 1), append(3, 9, 12, 1), read(4, 13, 15, 1, 3)], [1, 3]),
    "concurrent appends in either order": ([append(1, 0, 10, 1), append(2, 1, 9, 0)], [2, 1]),
    "an unknown that happened": ([unknown(1, 0), read(2, 5, 6, 1)], [1]),
    "an unknown that happened late": ([unknown(1, 0), append(2, 5, 6, 0), read(3, 7, 8, 2)], [2, 1]),
    "an unknown that never happened": ([unknown(1, 0), append(2, 5, 6, 0)], [2]),
    "a refusal": ([refused(1, 0, 3), append(2, 5, 6, 0)], [2]),
    "a read beside an append sees it": ([append(1, 0, 10, 0), read(2, 5, 6, 1)], [1]),
    "a read beside an append misses it": ([append(1, 0, 10, 0), read(2, 5, 6)], [1]),
    "touching ends are concurrent": ([append(1, 0, 5, 1), append(2, 5, 9, 0)], [2, 1]),
}

BAD: dict[str, tuple[list[Operation], list[int], str]] = {
    "lost append": ([append(1, 0, 5, 0), append(2, 6, 9, 1)], [1], "lost"),
    "append elsewhere": ([append(1, 0, 5, 0), unknown(2, 0)], [2, 1], "stands at 1"),
    "append twice": ([append(1, 0, 5, 0)], [1, 1], "twice"),
    "no client sent it": ([append(1, 0, 5, 0)], [1, 7], "by no client"),
    "certainly not done, yet there": ([refused(1, 0, 5)], [1], "certainly not"),
    "appends against real time": ([append(1, 0, 5, 1), append(2, 6, 9, 0)], [2, 1], "comes before"),
    "unknown append before its start": ([append(1, 0, 5, 1), unknown(2, 6)], [2, 1], "comes before"),
    "stale read": ([append(1, 0, 5, 0), read(2, 6, 8)], [1], "comes before"),
    "read goes back": (
        [unknown(1, 0), read(2, 1, 3, 1), read(3, 4, 6)],
        [1],
        "comes before",
    ),
    "read of the future": ([read(1, 0, 3, 2), append(2, 5, 6, 0)], [2], "comes before"),
    "read of something else": ([append(1, 0, 5, 0), read(2, 6, 8, 9)], [1], "other commands"),
    "read beyond the end": ([append(1, 0, 5, 0), read(2, 6, 8, 1, 2)], [1], "2 commands of 1"),
}


@pytest.mark.parametrize("name", GOOD)
def test_accepts(name: str) -> None:
    operations, final = GOOD[name]
    assert check_history(operations, final) == []


@pytest.mark.parametrize("name", BAD)
def test_finds(name: str) -> None:
    operations, final, expected = BAD[name]
    problems = check_history(operations, final)
    assert any(expected in problem for problem in problems), problems


def random_history(random: Random, count: int) -> tuple[list[Operation], list[int]]:
    """A linearizable history: every operation takes effect at one moment between its start and end."""
    effects = []
    for identity in range(1, count + 1):
        start = random.randrange(count * 5)
        effects.append((start + random.randrange(1, 50), start, identity, random.random()))
    final: list[int] = []
    operations = []
    digest = 0
    for moment, start, identity, dice in sorted(effects):
        end = moment + random.randrange(1, 50)
        if dice < 0.3:
            operations.append(Operation(identity, READ, start, end, DONE, len(final), digest))
        elif dice < 0.4:
            operations.append(Operation(identity, APPEND, start, end, NOT_DONE))
        else:
            outcome = UNKNOWN if dice < 0.5 else DONE
            operations.append(Operation(identity, APPEND, start, end, outcome, len(final)))
            final.append(identity)
            digest = fold(digest, identity)
    return operations, final


@pytest.mark.parametrize("seed", range(20))
def test_accepts_every_linearizable_history(seed: int) -> None:
    operations, final = random_history(Random(seed), 300)
    assert check_history(operations, final) == []


@pytest.mark.parametrize("seed", range(20))
def test_finds_a_displaced_append_in_a_long_history(seed: int) -> None:
    random = Random(seed)
    operations, final = random_history(random, 300)
    low, high = sorted(random.sample(range(len(final)), 2))
    final[low], final[high] = final[high], final[low]
    assert check_history(operations, final)


def test_history_numbers_operations() -> None:
    history = History()
    first = history.begin(APPEND, 5)
    second = history.begin(READ, 6)
    first.outcome = DONE
    assert (first.identity, second.identity) == (1, 2)
    assert history.count(APPEND, DONE) == 1
    assert history.count(READ, UNKNOWN) == 1
