"""The receipt of one record."""

from typing import NamedTuple

from flotilla.types.ids import Offset


class Receipt(NamedTuple):
    """Where a record is stored: on disk at a majority of replicas."""

    partition: int
    offset: Offset
    #: A record with this idempotency key was stored there before; this one was not needed.
    duplicate: bool = False
    topic: str = ""
    #: Of the topic: one that is deleted and created again under its name has another. 0: not known.
    topic_id: int = 0
