"""The search for letters in a dead-letter topic by their producers, which are their identity.

A letter has the time of its death, so the search begins at that time. It reads the heads of batches only: a letter is a
batch of its own. Used where a letter may have been stored by an earlier attempt, which is rare.
"""

from collections.abc import Callable
from typing import Final

from flotilla.broker.ports import Elsewhere
from flotilla.codec.batch.facts import facts_of
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import Offset
from flotilla.types.limits import MIB
from flotilla.types.operations import Fetch, Fetched, ListOffsets, OffsetFound, Reply

_STEP_BYTES: Final = 4 * MIB


def find_letters(
    elsewhere: Elsewhere,
    topic: str,
    since_ms: int,
    producers: set[int],
    found: Callable[[set[int] | FlotillaError], None],
) -> None:
    """Calls `found` with those of the producers whose letters are in the topic, none of them older than that."""
    known: set[int] = set()

    def begin(result: Reply | FlotillaError) -> None:
        if isinstance(result, FlotillaError):
            found(result)
            return
        assert isinstance(result, OffsetFound)
        if result.offset < 0:
            found(known)
        else:
            read(result.offset)

    def read(offset: Offset) -> None:
        elsewhere.ask(Fetch(topic, 0, offset, _STEP_BYTES), lambda result: seen(offset, result))

    def seen(offset: Offset, result: Reply | FlotillaError) -> None:
        if isinstance(result, FlotillaError):
            found(result)
            return
        assert isinstance(result, Fetched)
        end = offset
        for batch in result.batches:
            facts = facts_of(batch)
            if facts is not None:
                end = max(end, facts.base_offset + facts.count)
                if facts.producer_id in producers:
                    known.add(facts.producer_id)
        if end == offset or end >= result.next_offset or known == producers:
            found(known)
        else:
            read(end)

    elsewhere.ask(ListOffsets(topic, 0, since_ms), begin)
