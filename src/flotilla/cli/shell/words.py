"""The commands of `flotilla shell`: their table, the parser of a line, and completion.

Knows nothing of brokers or terminals.
"""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from flotilla.types.errors import InvalidArgumentError

MODES: Final = ("queue", "stream", "manual")


@dataclass(frozen=True, slots=True)
class Word:
    """One command of the shell."""

    name: str
    usage: str
    help: str
    #: Fewest and most arguments.
    arguments_min: int = 0
    arguments_max: int = 0
    #: The kind of its first argument, for completion: "topic", "mode", "place", "command" or empty.
    completes: str = ""


WORDS: Final = (
    Word("send", "send TOPIC TEXT... [key=K]", "Store a message and print its place.", 2, 10_000, "topic"),
    Word("subscribe", "subscribe TOPIC [group=G] [from=WHERE]", "Read a topic; WHERE is as in seek.", 1, 3, "topic"),
    Word("poll", "poll [COUNT]", "Print new messages, up to COUNT (10).", 0, 1),
    Word("stream", "stream", "Print messages as they come, until Ctrl-C."),
    Word("seek", "seek WHERE [PARTITION]", "Go to earliest, latest, an offset, 10m ago, or a time.", 1, 2, "place"),
    Word("commit", "commit", "Commit the position of the group; in a queue, acknowledge what was polled."),
    Word("nack", "nack [REASON...]", "In a queue: fail what was polled; it is redelivered.", 0, 10_000),
    Word(
        "mode",
        "mode [queue|stream|manual]",
        "How to subscribe: queue with a group and manual without, unless set.",
        0,
        1,
        "mode",
    ),
    Word("topics", "topics", "List the topics."),
    Word("status", "status", "Print brokers, leaders and the position."),
    Word("help", "help [COMMAND]", "This list.", 0, 1, "command"),
    Word("exit", "exit", "Leave; Ctrl-D does too."),
)
WORD_BY_NAME: Final = {word.name: word for word in WORDS}


def read_line(text: str) -> tuple[Word, list[str]] | None:
    """The command and its arguments; None for an empty line or a comment. Raises InvalidArgumentError."""
    if text.lstrip().startswith("#"):
        return None
    try:
        parts = shlex.split(text)
    except ValueError as error:
        raise InvalidArgumentError(f"{error}; quotes come in pairs") from None
    if not parts:
        return None
    name, *arguments = parts
    word = find_word(name)
    if not word.arguments_min <= len(arguments) <= word.arguments_max:
        raise InvalidArgumentError(f"usage: {word.usage}")
    return word, arguments


def split_options(arguments: Iterable[str], *names: str) -> tuple[list[str], dict[str, str]]:
    """Plain words, and values by name for words of the form name=value with a given name."""
    words, options = [], {}
    for argument in arguments:
        name, sign, value = argument.partition("=")
        if sign and name in names:
            options[name] = value
        else:
            words.append(argument)
    return words, options


def find_word(name: str) -> Word:
    """Finds a command by its name or an unambiguous prefix."""
    found = [WORD_BY_NAME[name]] if name in WORD_BY_NAME else [word for word in WORDS if word.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidArgumentError(f"{name!r} could be {' or '.join(word.name for word in found)}")
    raise InvalidArgumentError(f"there is no command {name!r}; `help` lists them")


def completions(line: str, topics: Iterable[str]) -> list[str]:
    """Completions of the last word of the line."""
    before, _, last = line.rpartition(" ")
    words = before.split()
    if not words:
        return [f"{word.name} " for word in WORDS if word.name.startswith(last)]
    if len(words) > 1 or words[0] not in WORD_BY_NAME:
        return []
    offers: Mapping[str, Iterable[str]] = {
        "topic": topics,
        "mode": MODES,
        "place": ("earliest", "latest"),
        "command": WORD_BY_NAME,
    }
    found = offers.get(WORD_BY_NAME[words[0]].completes, ())
    return [f"{each} " for each in found if each.startswith(last)]
