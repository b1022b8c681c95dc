"""Settings on a command line: `name=value`, as often as there are some."""

from collections.abc import Iterable

from flotilla.types.errors import InvalidArgumentError


def read_pairs(texts: Iterable[str], flag: str = "--set") -> dict[str, str]:
    """Raises InvalidArgumentError."""
    pairs = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise InvalidArgumentError(f"{flag} {text!r}: expected name=value")
        pairs[name] = value
    return pairs
