"""The text of a scenario: prose, commands and recorded output.

    Prose says what is about to happen and why.

    > propose 1 hello
        1>2 t1 append after 1/1 [1/2 hello] commit 1

A line that begins with "> " is a command; indented lines after it are its output. All other
lines are prose, kept as they are. Nothing here knows what a command means.
"""

from dataclasses import dataclass, field
from pathlib import Path

PROMPT = "> "
INDENT = "    "


@dataclass(slots=True)
class Command:
    """One command, where it stands, and what it printed when the scenario was recorded."""

    line: int
    text: str
    recorded: list[str] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        return self.text.split()


def parse(text: str) -> list[str | Command]:
    """Prose lines and commands, in order."""
    parts: list[str | Command] = []
    for number, line in enumerate(text.splitlines(), start=1):
        last = parts[-1] if parts else ""
        if line.startswith(PROMPT):
            parts.append(Command(number, line.removeprefix(PROMPT)))
        elif line.startswith(INDENT) and isinstance(last, Command):
            last.recorded.append(line.removeprefix(INDENT))
        else:
            parts.append(line)
    return parts


def render(parts: list[str | Command]) -> str:
    lines: list[str] = []
    for part in parts:
        if isinstance(part, Command):
            lines.append(PROMPT + part.text)
            lines.extend(INDENT + line for line in part.recorded)
        else:
            lines.append(part)
    return "\n".join(lines) + "\n"


def scenario_paths() -> list[Path]:
    return sorted(Path(__file__).parent.glob("*.txt"))
