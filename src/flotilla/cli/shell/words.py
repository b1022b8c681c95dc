"""What can be typed into `flotilla shell`: the table of commands, how a line is read, and what Tab offers.

Knows nothing of brokers or terminals, so that all of it can be tried without either.
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
    #: Fewest and most words after it; more are a mistake.
    arguments_min: int = 0
    arguments_max: int = 0
    #: What its first argument is, for completion: "topic", "mode", "place", "command" or nothing.
    completes: str = ""


WORDS: Final = (
    Word("send", "send TOPIC TEXT... [key=K]", "Store a message and tell where.", 2, 10_000, "topic"),
    Word("subscribe", "subscribe TOPIC [group=G] [from=WHERE]", "Read a topic; WHERE is as in seek.", 1, 3, "topic"),
    Word("poll", "poll [COUNT]", "Print what has come, up to COUNT messages (10).", 0, 1),
    Word("stream", "stream", "Print messages as they come, until Ctrl-C."),
    Word("seek", "seek WHERE [PARTITION]", "Go to earliest, latest, an offset, 10m ago, or a time.", 1, 2, "place"),
    Word("commit", "commit", "Remember the position for the group; in a queue, finish what was polled."),
    Word("nack", "nack [REASON...]", "In a queue: what was polled has failed, and comes again.", 0, 10_000),
    Word("mode", "mode [queue|stream|manual]", "How to subscribe; without a word, tell it.", 0, 1, "mode"),
    Word("topics", "topics", "List the topics."),
    Word("status", "status", "Tell brokers, leaders and the position."),
    Word("help", "help [COMMAND]", "This list.", 0, 1, "command"),
    Word("exit", "exit", "Leave; Ctrl-D does too."),
)
WORD_BY_NAME: Final = {word.name: word for word in WORDS}


def read_line(text: str) -> tuple[Word, list[str]] | None:
    """The command and its arguments; None for an empty line or a remark. Raises InvalidArgumentError."""
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
    """Plain words, and those of the form name=value for the given names."""
    words, options = [], {}
    for argument in arguments:
        name, sign, value = argument.partition("=")
        if sign and name in names:
            options[name] = value
        else:
            words.append(argument)
    return words, options


def find_word(name: str) -> Word:
    """By its name or any beginning that only one has."""
    found = [WORD_BY_NAME[name]] if name in WORD_BY_NAME else [word for word in WORDS if word.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidArgumentError(f"{name!r} could be {' or '.join(word.name for word in found)}")
    raise InvalidArgumentError(f"there is no command {name!r}; `help` lists them")


def completions(line: str, topics: Iterable[str]) -> list[str]:
    """What the last word of the line may become."""
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
