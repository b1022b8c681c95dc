"""The reference page of the command, made from its verbs: `REWRITE=1 pytest tests/tidy/test_cli_docs.py`."""

from collections.abc import Iterator
from typing import Any

from flotilla.cli.app import VERBS, load_verb
from flotilla.cli.exit_codes import ALL
from flotilla.cli.message_formats import Format
from flotilla.cli.servers import DEFAULT_SERVERS, SERVERS_VARIABLE
from flotilla.cli.shell_words import WORDS
from flotilla.types.settings import SETTINGS_BY_NAME

PATH = "docs/reference/cli.md"

_HEAD = f"""\
# The command line

`flotilla` is one command with verbs. `flotilla VERB --help` says what this page says; `flotilla --install-completion` \
teaches your shell to complete it. [The quickstart](../quickstart.md) shows them at work.

- **Which cluster.** Verbs that talk to a cluster take `--servers` (`-s`), else `{SERVERS_VARIABLE}`, else \
`{DEFAULT_SERVERS}`. One broker is enough; the others are found by asking.
- **What is printed.** Tables on a terminal; elsewhere the same rows as plain text without colours, one line each. \
`--json` prints JSON, one document or one line per message. Results go to standard output, everything else to standard \
error.
- **Mistakes** are one line on standard error, which begins with `flotilla:`, and an exit code.

## Exit codes

| code | meaning | errors |
| --- | --- | --- |
"""


def render() -> str:
    codes = "".join(
        f"| {row.code} | {row.meaning} | {', '.join(f'`{error.row.name}`' for error in row.errors)} |\n" for row in ALL
    )
    rest = "\nAny other [error](errors.md) ends with 1.\n"
    return _HEAD + codes + rest + "".join(_section(load_verb(verb), verb, 2) for verb in VERBS)


def _section(command: Any, path: str, level: int) -> str:
    title = f"\n{'#' * level} flotilla {path}\n\n"
    if hasattr(command, "commands"):
        parts = [_section(command.commands[name], f"{path} {name}", level + 1) for name in command.commands]
        return title + f"{_prose(command)}\n" + "".join(parts)
    usage = " ".join(["flotilla", path, *_pieces(command)])
    text = title + f"```console\n$ {usage}\n```\n\n{_prose(command)}\n"
    rows = "".join(_row(param) for param in _own_params(command))
    if rows:
        text += f"\n| option | default | meaning |\n| --- | --- | --- |\n{rows}"
    if _takes_settings(command):
        text += "\nEvery [setting](settings.md) is an option too, and `--config FILE` names a file with settings.\n"
    return text + _extra(path)


def _prose(command: Any) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))


def _own_params(command: Any) -> Iterator[Any]:
    for param in command.params:
        if param.param_type_name == "option" and param.name not in (*SETTINGS_BY_NAME, "config", "help"):
            yield param


def _takes_settings(command: Any) -> bool:
    return any(param.name in SETTINGS_BY_NAME for param in command.params)


def _pieces(command: Any) -> Iterator[str]:
    if any(True for _ in _own_params(command)) or _takes_settings(command):
        yield "[OPTIONS]"
    for param in command.params:
        if param.param_type_name == "argument":
            yield param.metavar or param.name.upper()


def _row(param: Any) -> str:
    flags = ", ".join(f"`{flag}`" for flag in param.opts)
    metavar = "" if param.is_flag else f" {param.metavar or _kind(param)}"
    return f"| {flags}{metavar} | {_default(param)} | {' '.join((param.help or '').split())} |\n".replace("\\|", "or")


def _kind(param: Any) -> str:
    choices = getattr(param.type, "choices", None)
    if choices:
        return " ".join(f"`{getattr(choice, 'value', choice)}`" for choice in choices)
    name: str = param.type.name
    return name.split()[0].upper()


def _default(param: Any) -> str:
    if isinstance(param.show_default, str):
        return param.show_default
    if param.is_flag or param.default in (None, [], ()):
        return ""
    default = getattr(param.default, "value", param.default)
    return f"`{default}`" if str(default) else ""


def _extra(path: str) -> str:
    if path == "shell":
        rows = "".join(f"| `{word.usage.replace('|', ' or ')}` | {word.help} |\n" for word in WORDS)
        return f"\n| typed | what it does |\n| --- | --- |\n{rows}"
    if path == "consume":
        forms = {
            Format.TEXT: "the payload as a line; on a terminal, what is not printable is shown escaped",
            Format.LONG: "the same after partition:offset, time, key and headers",
            Format.JSON: "one object per line; bytes that are no UTF-8 text stand under `payload_base64`",
            Format.HEX: "partition:offset and the payload in hexadecimal",
            Format.RAW: "the payload and nothing else, also no end of line",
        }
        rows = "".join(f"| `{form}` | {text} |\n" for form, text in forms.items())
        return f"\n| format | what is printed |\n| --- | --- |\n{rows}"
    return ""
