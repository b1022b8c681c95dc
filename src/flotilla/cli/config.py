"""`flotilla config show`: every setting, its value, and where the value came from.

A table on a terminal, JSON with `--json`, and TOML elsewhere: `flotilla config show > flotilla.toml` saves the current
settings as a file for `--config`.
"""

import json
import sys

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flotilla.cli.terminal.servers import AsJson
from flotilla.cli.terminal.settings_flags import setting_flags
from flotilla.types.setting_table import Setting
from flotilla.types.settings import SETTINGS, LoadedSettings, OriginKind

#: A narrower terminal has no room for whole sentences.
_MEANING_WIDTH = 100

config_app = typer.Typer(name="config", help="The settings of a node.", no_args_is_help=True)


@config_app.callback()
def config() -> None:
    """The settings of a node."""


@config_app.command("show")
@setting_flags
def show(
    loaded: LoadedSettings,
    as_json: AsJson = False,
) -> None:
    """Show every setting, its value and where it came from.

    Takes the same flags as `flotilla serve`, and shows what that would run with.

    Example: `flotilla config show --config flotilla.toml`
    """
    if as_json:
        typer.echo(as_json_text(loaded))
    elif sys.stdout.isatty():
        console = Console()
        console.print(as_table(loaded, console.width))
    else:
        typer.echo(as_toml(loaded))


def as_json_text(loaded: LoadedSettings) -> str:
    """An object by setting. Durations are in milliseconds and sizes in bytes, as the names say."""
    shown = {}
    for setting in SETTINGS.values():
        value = getattr(loaded.settings, setting.name)
        origin = loaded.origins[setting.name]
        shown[setting.name] = {
            "value": setting.kind.plain(value),
            "text": setting.kind.format(value),
            "origin": origin.kind.value,
            "place": origin.place,
            "scope": setting.scope.value,
            "help": setting.help,
        }
    return json.dumps(shown, indent=2)


def as_table(loaded: LoadedSettings, width: int) -> Table:
    """One line per setting, with its meaning where there is room."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("key", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("origin", overflow="fold")
    if width >= _MEANING_WIDTH:
        table.add_column("meaning", style="dim", no_wrap=True, ratio=1)
    for setting in SETTINGS.values():
        origin = loaded.origins[setting.name]
        style = "" if origin.kind is OriginKind.DEFAULT else "bold cyan"
        value = setting.kind.format(getattr(loaded.settings, setting.name))
        # Values are data: brackets in them are not markup.
        cells = [Text(setting.name), Text(value, style), Text(str(origin), style), Text(setting.help)]
        table.add_row(*cells[: len(table.columns)])
    return table


def as_toml(loaded: LoadedSettings) -> str:
    """A file of settings with the same values, and each origin as a comment."""
    lines = []
    for setting in SETTINGS.values():
        line = toml_line(setting, getattr(loaded.settings, setting.name))
        lines.append(f"{line}  # {loaded.origins[setting.name]}")
    return "\n".join(lines)


def toml_line(setting: Setting, value: object) -> str:
    text = setting.kind.format(value)
    # JSON writes a number like a setting does only if the setting has no unit; TOML writes strings like JSON.
    is_bare = json.dumps(setting.kind.plain(value)) == text
    return f"{setting.name} = {text if is_bare else json.dumps(text, ensure_ascii=False)}"
