"""The reference page of the command, generated from its verbs: `REWRITE=1 pytest tests/tidy/test_cli_docs.py`."""

from collections.abc import Callable
from enum import Enum
from inspect import Parameter, signature
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args

import typer
from typer.models import ArgumentInfo, OptionInfo

from flotilla.cli.app import VERBS, find_verb
from flotilla.cli.shell.words import WORDS
from flotilla.cli.terminal.exit_codes import ALL
from flotilla.cli.terminal.message_formats import Format
from flotilla.cli.terminal.servers import DEFAULT_SERVERS, SERVERS_VARIABLE
from flotilla.security.client_tls import CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE
from flotilla.types.settings import SETTINGS

PATH = "docs/reference/cli.md"

_KINDS = {int: "NUMBER", float: "NUMBER", str: "TEXT", Path: "PATH"}

_HEAD = f"""\
# The command line

`flotilla` is one command with verbs. `flotilla VERB --help` prints what this page says; \
`flotilla --install-completion` adds completion to your shell. [The quickstart](../quickstart.md) shows them in use.

- **Which cluster.** Verbs that talk to a cluster take `--servers` (`-s`), else `{SERVERS_VARIABLE}`, else \
`{DEFAULT_SERVERS}`. One broker is enough; it names the others.
- **TLS.** In front of the verb stand `--tls-ca`, `--tls-certificate` and `--tls-key`, else \
`{CA_VARIABLE}`, `{CERTIFICATE_VARIABLE}` and `{KEY_VARIABLE}`: with one of them the verb speaks TLS as a client \
([security](../security.md)).
- **Output.** Tables on a terminal; elsewhere the same rows as plain text without colours, one line each. \
`--json` prints JSON, one document or one line per message; every verb has it except `serve`, `proxy`, `worker` and \
`shell`, which run until they are stopped. Results go to standard output, everything else to standard error.
- **Errors** are one line on standard error that begins with `flotilla:`, and an exit code.

## Exit codes

| code | meaning | errors |
| --- | --- | --- |
"""


class Option(NamedTuple):
    """One option of a verb, as its function declares it."""

    flags: tuple[str, ...]
    value: str
    default: str
    help: str


def verbs() -> dict[str, Callable[..., None] | typer.Typer]:
    """Every verb and every group of verbs by what is typed, in the order of the help."""
    found: dict[str, Callable[..., None] | typer.Typer] = {}
    for name in VERBS:
        _add_verb(found, name, find_verb(name))
    return found


def _add_verb(
    found: dict[str, Callable[..., None] | typer.Typer], name: str, verb: Callable[..., None] | typer.Typer
) -> None:
    found[name] = verb
    if isinstance(verb, typer.Typer):
        for command in verb.registered_commands:
            assert command.callback is not None
            found[f"{name} {command.name}"] = command.callback
        for group in verb.registered_groups:
            assert group.typer_instance is not None
            _add_verb(found, f"{name} {group.typer_instance.info.name}", group.typer_instance)


def options(function: Callable[..., None]) -> list[Option]:
    """Without those that are settings."""
    found = []
    left_out = (*SETTINGS, "config") if takes_settings(function) else ()
    for name, parameter in signature(function, eval_str=True).parameters.items():
        kind, info = get_args(parameter.annotation)[:2]
        if isinstance(info, OptionInfo) and name not in left_out:
            # Inside of Annotated, typer keeps the first flag in the place of a default.
            first = [info.default] if isinstance(info.default, str) else []
            flags = [*first, *(info.param_decls or ())] or [f"--{name.replace('_', '-')}"]
            text = " ".join((info.help or "").split())
            found.append(Option(tuple(flags), _value(kind, info), _default(parameter.default, info), text))
    return found


def takes_settings(function: Callable[..., None]) -> bool:
    return "node_id" in signature(function).parameters


def _value(kind: Any, info: OptionInfo) -> str:
    kind = _single(kind)
    if kind is bool:
        return ""
    if info.metavar:
        return f" {info.metavar}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " " + " ".join(f"`{member.value}`" for member in kind)
    return f" {_KINDS[kind]}"


def _single(kind: Any) -> Any:
    """What one value of an option is, whether it may be repeated or left out."""
    inner = [each for each in get_args(kind) if each is not NoneType]
    return _single(inner[0]) if inner else kind


def _default(default: Any, info: OptionInfo) -> str:
    if isinstance(info.show_default, str):
        return info.show_default
    if default is Parameter.empty:
        return "required"
    if default in (None, [], "") or isinstance(default, bool):
        return ""
    return f"`{default.value if isinstance(default, Enum) else default}`"


def _arguments(function: Callable[..., None]) -> list[str]:
    found = []
    for parameter in signature(function, eval_str=True).parameters.values():
        info = get_args(parameter.annotation)[1]
        if isinstance(info, ArgumentInfo):
            found.append(str(info.metavar) if parameter.default is Parameter.empty else f"[{info.metavar}]")
    return found


def render() -> str:
    codes = "".join(
        f"| {row.code} | {row.meaning} | {', '.join(f'`{error.row.name}`' for error in row.errors)} |\n" for row in ALL
    )
    rest = "\nAny other [error](errors.md) ends with 1.\n"
    return _HEAD + codes + rest + "".join(_section(name, verb) for name, verb in verbs().items())


def _section(name: str, verb: Callable[..., None] | typer.Typer) -> str:
    title = f"\n{'###' if ' ' in name else '##'} flotilla {name}\n\n"
    if isinstance(verb, typer.Typer):
        return f"{title}{verb.info.help}\n"
    chosen = options(verb)
    words = ["[OPTIONS]"] if chosen or takes_settings(verb) else []
    usage = " ".join(["flotilla", name, *words, *_arguments(verb)])
    text = title + f"```console\n$ {usage}\n```\n\n{_prose(verb)}\n"
    if chosen:
        text += "\n| option | default | meaning |\n| --- | --- | --- |\n" + "".join(map(_row, chosen))
    if takes_settings(verb):
        text += "\nEvery [setting](settings.md) is an option too, and `--config FILE` names a file with settings.\n"
    return text + _extra(name)


def _prose(function: Callable[..., None]) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (function.__doc__ or "").split("\n\n"))


def _row(option: Option) -> str:
    flags = ", ".join(f"`{flag}`" for flag in option.flags)
    return f"| {flags}{option.value} | {option.default} | {option.help} |\n"


def _extra(name: str) -> str:
    if name == "shell":
        rows = "".join(f"| `{word.usage.replace('|', ' or ')}` | {word.help} |\n" for word in WORDS)
        return f"\n| typed | what it does |\n| --- | --- |\n{rows}"
    if name == "consume":
        forms = {
            Format.TEXT: "the payload as a line; on a terminal, what is not printable is shown escaped",
            Format.LONG: "the same after partition:offset, time, key and headers",
            Format.JSON: "one object per line; bytes that are not UTF-8 are in `payload_base64`",
            Format.HEX: "partition:offset and the payload in hexadecimal",
            Format.RAW: "the payload and nothing else, also no end of line",
        }
        rows = "".join(f"| `{form}` | {text} |\n" for form, text in forms.items())
        return f"\n| format | what is printed |\n| --- | --- |\n{rows}"
    return ""
