"""What both shells are made from: addresses, a session and its chance."""

from collections.abc import Sequence
from random import Random, SystemRandom
from typing import Literal, TypeAlias

from flotilla import __version__
from flotilla.client.network import now_ms
from flotilla.client.positions import Start
from flotilla.client.reader import ReaderOptions
from flotilla.client.session import Session, SessionOptions
from flotilla.types.address import Address, parse_address
from flotilla.types.errors import InvalidArgumentError, UnsupportedError

Mode: TypeAlias = Literal["queue", "stream", "manual"]

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


def new_session(addresses: Sequence[Address], name: str) -> Session:
    # From the system, so that two processes which began as one do not draw the same producer ids.
    chance = Random(SystemRandom().getrandbits(128))
    options = SessionOptions(name=f"flotilla-python/{__version__} {name}".strip())
    return Session(addresses, chance, options, now_ms())


def read_settings(settings: dict[str, int | str]) -> dict[str, str]:
    """Topic settings as they travel; the broker says which exist and what they may be."""
    return {name: str(value) for name, value in settings.items()}


def read_timeout(timeout_ms: int | None, default_ms: int) -> int:
    limit_ms = default_ms if timeout_ms is None else timeout_ms
    if limit_ms < 1:
        raise InvalidArgumentError("timeout_ms is at least 1")
    return limit_ms


def reader_options(
    mode: Mode,
    offset: Start | None,
    timestamp_ms: int | None,
    visibility_ms: int | None,
    *,
    fetch_bytes: int,
    buffer_bytes_max: int,
    skip_removed: bool,
) -> ReaderOptions:
    """How to read. Raises UnsupportedError for what this version does not offer."""
    if mode != "manual":
        raise UnsupportedError(f'this version reads with mode="manual" only; mode={mode!r} is not offered yet')
    if visibility_ms is not None:
        raise UnsupportedError("visibility_ms is for leases, and a manual reader has none")
    if offset is not None and timestamp_ms is not None:
        raise InvalidArgumentError("a consumer begins at an offset or at a time, not at both")
    if fetch_bytes < 1 or buffer_bytes_max < 1:
        raise InvalidArgumentError("fetch_bytes and buffer_bytes_max are at least 1")
    return ReaderOptions(fetch_bytes, buffer_bytes_max, skip_removed=skip_removed)
