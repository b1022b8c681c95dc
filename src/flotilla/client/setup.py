"""What both shells are made from: addresses, a session and its chance."""

from collections.abc import Sequence
from random import Random, SystemRandom

from flotilla import __version__
from flotilla.client.network import now_ms
from flotilla.client.session import Session, SessionOptions
from flotilla.types.address import Address, parse_address
from flotilla.types.errors import InvalidArgumentError

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
