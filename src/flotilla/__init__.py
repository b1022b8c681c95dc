"""Flotilla: a message queue in which every partition is its own Raft group.

The names that applications use are imported from here. They are loaded when one of them is first used, so that
importing the package alone costs nothing, and importing an error does not load the client.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from flotilla.types.version import __version__ as __version__

if TYPE_CHECKING:
    from flotilla.client.public import *  # noqa: F403 - the names stand once.

#: What nearly every program imports is loaded without the rest.
_HOMES = {"Client": "flotilla.client.client", "AsyncClient": "flotilla.client.async_client"}


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(each for each in vars(import_module("flotilla.client.public")) if not each.startswith("_"))
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    errors = "flotilla.types.errors" if name.endswith("Error") else None
    home = import_module(errors or _HOMES.get(name, "flotilla.client.public"))
    try:
        found: object = getattr(home, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *import_module("flotilla").__all__])
