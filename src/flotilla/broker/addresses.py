"""Checks of the addresses that nodes advertise."""

from flotilla.types.address import parse_address
from flotilla.types.errors import InvalidArgumentError


def is_address(text: str) -> bool:
    try:
        return parse_address(text).port > 0
    except ValueError:
        return False


def check_address(noun: str, text: str) -> str:
    """Raises InvalidArgumentError for text that is no address to connect to."""
    if not is_address(text):
        raise InvalidArgumentError(f"{noun} is host:port, not {text[:80]!r}")
    return text
