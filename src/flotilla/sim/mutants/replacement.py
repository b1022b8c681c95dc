"""Parts of the product that are replaced for a while: how a deliberate bug gets in and out."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

#: Something with attributes, or a table of steps; a name or key; and what makes of the original what takes its place.
Replacement: TypeAlias = tuple[Any, Any, Callable[[Any], Any]]


@contextmanager
def replaced(replacements: Iterable[Replacement]) -> Iterator[None]:
    """The originals are back at the end."""
    originals: list[tuple[Any, Any, Any]] = []
    try:
        for owner, key, make in replacements:
            original = _get(owner, key)
            originals.append((owner, key, original))
            _set(owner, key, make(original))
        yield
    finally:
        for owner, key, original in reversed(originals):
            _set(owner, key, original)


def _get(owner: Any, key: Any) -> Any:
    return owner[key] if isinstance(owner, dict) else getattr(owner, key)


def _set(owner: Any, key: Any, value: Any) -> None:
    if isinstance(owner, dict):
        owner[key] = value
    else:
        setattr(owner, key, value)
