"""Flags of a command that takes the settings of a node: one per row of the table, and `--config`.

A decorated command receives the loaded settings as its first argument.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from inspect import Parameter
from pathlib import Path
from typing import Annotated

import typer

from flotilla.cli.terminal.servers import SERVERS_VARIABLE
from flotilla.cli.terminal.shared_options import share_options
from flotilla.runtime.settings_loader import CONFIG_VARIABLE, load_settings
from flotilla.security.client_tls import VARIABLES
from flotilla.types.setting_table import Setting
from flotilla.types.settings import SETTINGS, LoadedSettings


def setting_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Turns `command(loaded, **own)` into one with a flag for every setting."""
    return share_options(command, [_config_flag(), *map(_flag, SETTINGS.values())], _load)


def _load(config: Path | None, **flags: object) -> LoadedSettings:
    """Raises InvalidArgumentError."""
    # These are for clients and often set for a whole machine; they are no settings of a node.
    of_clients = (SERVERS_VARIABLE, *VARIABLES)
    environ = {name: value for name, value in os.environ.items() if name not in of_clients}
    loaded = load_settings(flags, environ, config)
    return replace(loaded, reload=partial(_load, config, **flags))


def _config_flag() -> Parameter:
    option = typer.Option("--config", metavar="FILE", help=f"A TOML file with settings, else ${CONFIG_VARIABLE}.")
    return Parameter("config", Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[Path | None, option])


def _flag(setting: Setting) -> Parameter:
    default = setting.kind.format(setting.default) or "none"
    is_switch = setting.kind.shape.startswith("true|false")
    option = typer.Option(
        f"{setting.flag}/--no-{setting.flag.removeprefix('--')}" if is_switch else setting.flag,
        metavar="" if is_switch else setting.kind.shape,
        help=f"{setting.help} (default {default})",
        rich_help_panel=setting.section,
        show_default=False,
    )
    # Text stays unparsed here: the table parses flags, variables and files alike, with the same errors.
    kind = bool | None if is_switch else str | None
    return Parameter(setting.name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option])
