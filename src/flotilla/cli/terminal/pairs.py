"""Pairs on a command line: `--set NAME=VALUE` and `--header NAME=VALUE`, both repeatable."""

from collections.abc import Iterable
from typing import Annotated, Any, TypeAlias

import typer

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.setting_table import SettingTable

#: Of a command that takes messages.
WantedHeaders: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--header", "-H", metavar="NAME=VALUE", help="Only messages with this header; repeatable.", show_default="all"
    ),
]


def read_pairs(texts: Iterable[str], flag: str = "--set") -> dict[str, str]:
    """Raises InvalidArgumentError."""
    pairs = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise InvalidArgumentError(f"{flag} {text!r}: expected name=value")
        pairs[name] = value
    return pairs


def read_settings_of(table: SettingTable, texts: Iterable[str], unset: Iterable[str] = ()) -> dict[str, Any]:
    """Settings of a topic or a group; an empty text restores the default. Raises InvalidArgumentError."""
    settings = {**read_pairs(texts), **dict.fromkeys(unset, "")}
    table.check_names(settings)
    return settings
