"""The datadriven text format: a directive, its input, a separator and the expected output.

    # a comment
    command positional key=value key=(a, b)
    input lines
    ----
    expected output, up to a blank line

Output that holds blank lines itself stands between two pairs of separators. A backslash at the end
of a directive line continues it. Nothing here knows what any command means.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SEPARATOR = "----"
ENVIRONMENT = "FLOTILLA_RAFT_DATA"
DEFAULT_FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "etcd-raft-data"

_ARGUMENT = re.compile(r"(?P<key>[^\s=()]+)(?:=(?:\((?P<list>[^()]*)\)|(?P<value>[^\s()]*)))?|\((?P<bare>[^()]*)\)")


@dataclass(slots=True)
class Directive:
    """One command of a script. `positional` and the values of `named` are uninterpreted words."""

    path: Path
    line: int
    command: str
    positional: list[str] = field(default_factory=list)
    named: dict[str, list[str]] = field(default_factory=dict)
    input: str = ""
    expected: str = ""

    @property
    def where(self) -> str:
        return f"{self.path.name}:{self.line}"

    def text(self, key: str, default: str = "") -> str:
        values = self.named.get(key)
        return default if not values else values[0]

    def number(self, key: str, default: int) -> int:
        return int(self.text(key, str(default)))

    def flag(self, key: str) -> bool:
        """True for `key=true` and for a bare `key`."""
        return key in self.positional or self.text(key) in ("true", "t", "1")

    def numbers(self, key: str) -> list[int]:
        return [int(word) for word in self.named.get(key, [])]


def parse(path: Path) -> list[Directive]:
    lines = path.read_text(encoding="utf-8").splitlines()
    directives: list[Directive] = []
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            at += 1
            continue
        head = lines[at]
        number = at + 1
        while head.endswith("\\"):
            at += 1
            head = f"{head[:-1]} {lines[at].strip()}"
        directive = _parse_head(path, number, head)
        at = _parse_body(directive, lines, at + 1)
        directives.append(directive)
    return directives


def _parse_head(path: Path, number: int, head: str) -> Directive:
    command, _, rest = head.partition(" ")
    directive = Directive(path, number, command)
    for match in _ARGUMENT.finditer(rest):
        listed = match["list"] if match["list"] is not None else match["bare"]
        if match["key"] is None:
            directive.positional.extend(_words(listed))
        elif listed is not None:
            directive.named[match["key"]] = _words(listed)
        elif match["value"] is not None:
            directive.named[match["key"]] = [match["value"]]
        else:
            directive.positional.append(match["key"])
    return directive


def _words(listed: str) -> list[str]:
    return [word.strip() for word in listed.split(",") if word.strip()]


def _parse_body(directive: Directive, lines: list[str], at: int) -> int:
    """Reads input and expected output; answers the line after them."""
    inputs: list[str] = []
    while lines[at] != SEPARATOR:
        inputs.append(lines[at])
        at += 1
    at += 1
    expected: list[str] = []
    if at < len(lines) and lines[at] == SEPARATOR:
        at += 1
        while lines[at : at + 2] != [SEPARATOR, SEPARATOR]:
            expected.append(lines[at])
            at += 1
        at += 2
    else:
        while at < len(lines) and lines[at].strip():
            expected.append(lines[at])
            at += 1
    directive.input = "\n".join(inputs)
    directive.expected = "\n".join(expected)
    return at


def scripts(kind: str) -> list[Path]:
    """The scripts of one kind ("quorum", "confchange", "interaction"), in order of their names."""
    return sorted((folder() / kind).glob("*.txt"))


def folder() -> Path:
    return Path(os.environ.get(ENVIRONMENT) or DEFAULT_FOLDER)


def parametrize(kind: str) -> pytest.MarkDecorator:
    """One test per script, or a single skipped one that says why there is none."""
    found = scripts(kind)
    if found:
        return pytest.mark.parametrize("path", found, ids=[path.stem for path in found])
    reason = f"no {kind} scripts in the folder that {ENVIRONMENT} names"
    return pytest.mark.parametrize(
        "path", [pytest.param(Path(), marks=pytest.mark.skip(reason=reason))], ids=["absent"]
    )
