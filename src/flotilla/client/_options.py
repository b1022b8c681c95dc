"""What both shells are made from: addresses, a session and its chance."""

import socket
from collections.abc import Sequence
from random import Random, SystemRandom
from typing import Literal, TypeAlias, TypedDict

from flotilla.client._core.asyncio_network import now_ms
from flotilla.client._core.positions import Start
from flotilla.client._core.session import Session, SessionOptions
from flotilla.client.reader._core import ReaderOptions
from flotilla.client.reader._replica_choice import LEADER, READ_FROM
from flotilla.types.address import Address, parse_address
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import MIB
from flotilla.types.version import __version__

Mode: TypeAlias = Literal["queue", "stream", "manual"]
ReadFrom: TypeAlias = Literal["leader", "nearest", "spread"]

PORT_DEFAULT = 7600
TIMEOUT_MS_DEFAULT = 30_000


def read_addresses(given: str | Sequence[str]) -> list[Address]:
    """Addresses as people write them: `host`, `host:port`, several by commas or as a list."""
    texts = given.split(",") if isinstance(given, str) else given
    addresses = []
    for text in map(str.strip, texts):
        try:
            addresses.append(parse_address(text if ":" in text else f"{text}:{PORT_DEFAULT}"))
        except ValueError as error:
            raise InvalidArgumentError(f"{text!r} is no address of a broker: {error}") from error
    if not addresses:
        raise InvalidArgumentError("a client needs the address of at least one broker")
    return addresses


def full_name(name: str) -> str:
    """What a client calls itself, for people at the broker."""
    return f"flotilla-python/{__version__} {name}".strip()


def new_session(addresses: Sequence[Address], name: str, *, is_gateway: bool = False) -> Session:
    # From the system, so that two processes which began as one do not draw the same producer ids.
    chance = Random(SystemRandom().getrandbits(128))
    options = SessionOptions(name=full_name(name), host=socket.gethostname(), is_gateway=is_gateway)
    return Session(addresses, chance, options, now_ms())


def read_settings(settings: dict[str, int | str]) -> dict[str, str]:
    """Topic settings as they travel; the broker says which exist and what they may be."""
    return {name: str(value) for name, value in settings.items()}


def read_timeout(timeout_ms: int | None, default_ms: int) -> int:
    limit_ms = default_ms if timeout_ms is None else timeout_ms
    if limit_ms < 1:
        raise InvalidArgumentError("timeout_ms is at least 1")
    return limit_ms


class ReadSettings(TypedDict, total=False):
    """What may be said of a manual reader beside its topic."""

    #: Whose committed offsets are meant.
    group: str
    #: Where to begin: a number, earliest or latest;
    offset: Start | None
    #: or the first record at or after a time. Neither: where the group committed, else at the oldest record.
    timestamp_ms: int | None
    #: All, unless some are named.
    partitions: Sequence[int] | None
    #: Go on with what is left when retention has removed what would be next, instead of raising.
    skip_removed: bool
    #: Who answers: whoever leads a partition, the nearest replica, or for each reader another one.
    read_from: ReadFrom
    #: See everything that was acknowledged before, at the price of a question to a quorum for each fetch.
    linearizable: bool
    fetch_bytes: int
    buffer_bytes_max: int
    timeout_ms: int | None


def reader_options(settings: ReadSettings) -> ReaderOptions:
    """How to read. Raises InvalidArgumentError."""
    unknown = sorted(settings.keys() - ReadSettings.__annotations__.keys())
    if unknown:
        raise InvalidArgumentError(f"a manual reader knows no {', '.join(unknown)}")
    if settings.get("offset") is not None and settings.get("timestamp_ms") is not None:
        raise InvalidArgumentError("a consumer begins at an offset or at a time, not at both")
    fetch_bytes = settings.get("fetch_bytes", 1 * MIB)
    buffer_bytes_max = settings.get("buffer_bytes_max", 32 * MIB)
    if fetch_bytes < 1 or buffer_bytes_max < 1:
        raise InvalidArgumentError("fetch_bytes and buffer_bytes_max are at least 1")
    return ReaderOptions(
        fetch_bytes,
        buffer_bytes_max,
        skip_removed=settings.get("skip_removed", False),
        read_from=read_replicas(settings.get("read_from")),
        is_linearizable=settings.get("linearizable", False),
    )


def read_replicas(read_from: str | None) -> str:
    """Who answers a reader. Raises InvalidArgumentError."""
    if read_from is None:
        return LEADER
    if read_from not in READ_FROM:
        raise InvalidArgumentError(f"read_from is {', '.join(READ_FROM[:-1])} or {READ_FROM[-1]}, not {read_from!r}")
    return read_from


def check_mode(mode: str) -> None:
    """Raises InvalidArgumentError."""
    if mode not in ("queue", "stream", "manual"):
        raise InvalidArgumentError(f"a mode is queue, stream or manual, not {mode!r}")
