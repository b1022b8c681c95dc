"""Tables of settings: a row per setting, and how values are read, checked and shown by it.

Nodes, topics and groups have one table each. Flags, file keys, `--set`, the arguments of the Python client and the
reference pages come from these rows.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.setting_kinds import Kind
from flotilla.types.slotted import frozen


class Scope(Enum):
    #: May differ from one node to the next.
    NODE = "node"
    #: Must be the same on every node of a cluster.
    CLUSTER = "cluster"


@frozen
class Setting:
    """One row of a table."""

    name: str
    kind: Kind
    default: Any
    help: str
    #: Of a node's setting: where it stands in documents.
    section: str = ""
    scope: Scope = Scope.NODE

    @property
    def variable(self) -> str:
        """The environment variable of a node's setting."""
        return VARIABLE_PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        """The flag of a node's setting."""
        return "--" + self.name.replace("_", "-")

    def format(self, value: Any) -> str:
        return self.kind.format(value)

    def check(self, value: object) -> Any:
        """`value` when it is allowed. Raises InvalidArgumentError."""
        if not self.kind.accepts(value):
            raise InvalidArgumentError(f"{self.name} = {value!r}: expected {self.kind.allowed}")
        return value


VARIABLE_PREFIX = "FLOTILLA_"


class SettingTable(dict[str, Setting]):
    """Rows by name, in the order in which they are shown."""

    def __init__(self, noun: str, rows: Iterable[Setting]) -> None:
        super().__init__((row.name, row) for row in rows)
        self._noun = noun

    def check_names(self, names: Iterable[str]) -> None:
        """Raises InvalidArgumentError for the first name without a row."""
        for name in names:
            if name not in self:
                hint = did_you_mean(name, self) or f"; there are {', '.join(self)}"
                raise InvalidArgumentError(f"there is no {self._noun} setting {name!r}{hint}")

    def parse(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Values as people write them (`30s`, `1MiB`, `5`); `check` looks at bounds. Raises InvalidArgumentError."""
        self.check_names(texts)
        values = {}
        for name, text in texts.items():
            try:
                values[name] = self[name].kind.parse(text)
            except ValueError as error:
                raise InvalidArgumentError(f"{name} = {text!r}: {error}") from None
        return values

    def check(self, chosen: Mapping[str, object]) -> tuple[tuple[str, Any], ...]:
        """What was set, checked and in the order of the table. Raises InvalidArgumentError."""
        self.check_names(chosen)
        return tuple((name, row.check(chosen[name])) for name, row in self.items() if name in chosen)

    def show(self, values: Iterable[tuple[str, Any]]) -> dict[str, str]:
        """Values as people read them; `parse` takes them back."""
        return {name: self[name].format(value) for name, value in values}


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint that ends an error message; empty when no name is close."""
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""
