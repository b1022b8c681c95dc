"""Flags of a command that takes the settings of a node: one per row of the table, and `--config`.

A decorated command receives the loaded settings as its first argument and keeps options of its own
as the others. A user's mistake is one line on standard error and exit code 2.
"""

import os
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from flotilla.cli.terminal.exit_codes import USAGE
from flotilla.cli.terminal.servers import SERVERS_VARIABLE
from flotilla.runtime.settings_loader import CONFIG_VARIABLE, load_settings
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.settings import SETTINGS, SETTINGS_BY_NAME, LoadedSettings, Setting

_CONFIG = "config"


def setting_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Turns `command(loaded, **own)` into one with a flag for every setting."""
    _, *own = signature(command, eval_str=True).parameters.values()
    assert not any(parameter.name in SETTINGS_BY_NAME or parameter.name == _CONFIG for parameter in own)

    @wraps(command)
    def with_settings(**options: Any) -> None:
        file: Path | None = options.pop(_CONFIG)
        flags = {setting.name: options.pop(setting.name) for setting in SETTINGS}
        command(_load_or_exit(flags, file), **options)

    parameters = [*own, _config_flag(), *(_flag(setting) for setting in SETTINGS)]
    with_settings.__signature__ = Signature(  # type: ignore[attr-defined]
        [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters]
    )
    return with_settings


def _load_or_exit(flags: dict[str, object], file: Path | None) -> LoadedSettings:
    # Where clients find a cluster is often set for a whole machine, and no business of the node.
    environ = {name: value for name, value in os.environ.items() if name != SERVERS_VARIABLE}
    try:
        return load_settings(flags, environ, file)
    except InvalidArgumentError as error:
        typer.echo(f"flotilla: {error}", err=True)
        raise typer.Exit(USAGE.code) from None


def _config_flag() -> Parameter:
    option = typer.Option("--config", metavar="FILE", help=f"A TOML file with settings, else ${CONFIG_VARIABLE}.")
    return Parameter(_CONFIG, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[Path | None, option])


def _flag(setting: Setting) -> Parameter:
    default = setting.kind.format(setting.default) or "none"
    option = typer.Option(
        setting.flag,
        metavar=setting.kind.shape,
        help=f"{setting.help} (default {default})",
        rich_help_panel=setting.section,
        show_default=False,
    )
    # Text goes to the table unread, so that flags, variables and files are judged by the same words.
    return Parameter(setting.name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, option])
