"""Settings on a command line: `--set NAME=VALUE` and `--unset NAME`, both repeatable."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Any

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


def read_settings_of(
    what: str, known: Collection[str], texts: Iterable[str], unset: Iterable[str] = ()
) -> dict[str, Any]:
    """Settings of a topic or a group; an empty text restores the default. Raises InvalidArgumentError."""
    settings = {**read_pairs(texts), **dict.fromkeys(unset, "")}
    for name in settings:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            raise InvalidArgumentError(f"there is no {what} setting {name!r}; {hint}")
    return settings
