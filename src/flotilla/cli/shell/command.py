"""`flotilla shell`: an interactive producer and reader, with history and completion.

Lines are edited by the standard library's readline, which knows the user's key bindings and needs no dependency.
Without a terminal the same commands are read as a script, and the first error ends it with its exit code.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from flotilla.cli.cluster import broker_rows
from flotilla.cli.shell.subscription import ManualSubscription, QueueSubscription, StreamSubscription, Subscription
from flotilla.cli.shell.words import MODES, WORDS, completions, find_word, read_line, split_options
from flotilla.cli.terminal.message_formats import Format, formatter
from flotilla.cli.terminal.output import complain, note, print_table
from flotilla.cli.terminal.servers import Cluster, find_topic, takes_cluster
from flotilla.cli.terminal.start_point import StartPoint, now_ms, read_start_point
from flotilla.types.errors import FlotillaError, InvalidArgumentError

if TYPE_CHECKING:
    from flotilla.client.client import Client
    from flotilla.client.queue.sync import QueueMessage
    from flotilla.client.reader.message import Message

PROMPT = "flotilla> "
_HISTORY_LINES_MAX = 10_000
_POLL_COUNT = 10
_STREAM_COUNT = 1_000


@takes_cluster
def shell(cluster: Cluster) -> None:
    """Send and read interactively: send, subscribe, poll, stream, seek, commit, nack; `help` lists all.

    Example: `echo 'send orders hello' | flotilla shell`
    """
    with cluster.connect() as client:
        session = ShellSession(client)
        if not sys.stdin.isatty():
            for line in sys.stdin:
                if not session.run(line):
                    return
            return
        name = client.admin.metadata().cluster_name
        note(f"connected to {name or 'a node that waits for its cluster'}; `help` lists commands")
        with _Editing(session.topic_names):
            _read_lines(session)


def _read_lines(session: "ShellSession") -> None:
    while True:
        try:
            line = input(PROMPT)
        except EOFError:
            typer.echo()
            return
        except KeyboardInterrupt:
            # Drops the line, as every shell does.
            typer.echo()
            continue
        try:
            if not session.run(line):
                return
        except KeyboardInterrupt:
            typer.echo()
        except FlotillaError as error:
            complain(str(error))


class ShellSession:
    """The state of a shell between two commands."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        #: Set by `mode`; empty: queue with a group, manual without.
        self._mode = ""
        self._subscription: Subscription | None = None
        self._do: dict[str, Callable[[list[str]], None]] = {
            "send": self._send,
            "subscribe": self._subscribe,
            "poll": self._poll,
            "stream": self._stream,
            "seek": self._seek,
            "commit": self._commit,
            "nack": self._nack,
            "mode": self._set_mode,
            "topics": self._topics,
            "status": self._status,
            "help": self._help,
        }
        self._made: dict[str, Callable[[str, str, StartPoint | None], Subscription]] = {
            "queue": self._queue,
            "stream": self._stream_group,
            "manual": self._manual,
        }

    def run(self, line: str) -> bool:
        """Runs one line. False: it was the last. Raises FlotillaError."""
        read = read_line(line)
        if read is None:
            return True
        word, arguments = read
        if word.name == "exit":
            return False
        self._do[word.name](arguments)
        return True

    def topic_names(self) -> list[str]:
        return sorted(topic.name for topic in self._client.topics(timeout_ms=500))

    def _send(self, arguments: list[str]) -> None:
        (topic, *words), options = split_options(arguments, "key")
        key = os.fsencode(options["key"]) if "key" in options else None
        receipt = self._client.produce(topic, os.fsencode(" ".join(words)), key=key)
        typer.echo(f"{topic} partition {receipt.partition} offset {receipt.offset}")

    def _subscribe(self, arguments: list[str]) -> None:
        words, options = split_options(arguments, "group", "from")
        if len(words) != 1:
            raise InvalidArgumentError(f"usage: {find_word('subscribe').usage}")
        topic, group = words[0], options.get("group", "")
        begin = read_start_point(options["from"], now_ms()) if "from" in options else None
        find_topic(self._client, topic)
        mode = self._mode or ("queue" if group else "manual")
        made = self._made[mode](topic, group, begin)
        try:
            described = made.describe()
        except FlotillaError:
            made.close()
            raise
        if self._subscription is not None:
            self._subscription.close()
        self._subscription = made
        typer.echo(described)

    def _queue(self, topic: str, group: str, begin: StartPoint | None) -> Subscription:
        if not group:
            raise InvalidArgumentError("a queue is read by a group: subscribe TOPIC group=NAME")
        begin = begin or StartPoint()
        made = self._client.queue(topic, group, start=begin.offset, timestamp_ms=begin.timestamp_ms)
        return QueueSubscription(made, topic, group)

    def _stream_group(self, topic: str, group: str, begin: StartPoint | None) -> Subscription:
        if not group:
            raise InvalidArgumentError("a stream is shared by a group: subscribe TOPIC group=NAME")
        begin = begin or StartPoint()
        made = self._client.stream(topic, group, start=begin.offset, timestamp_ms=begin.timestamp_ms, skip_removed=True)
        return StreamSubscription(made)

    def _manual(self, topic: str, group: str, begin: StartPoint | None) -> Subscription:
        made = self._client.reader(
            topic,
            group=group,
            offset=begin.offset if begin else None,
            timestamp_ms=begin.timestamp_ms if begin else None,
            skip_removed=True,
        )
        return ManualSubscription(made, group)

    def _poll(self, arguments: list[str]) -> None:
        count = _read_count(arguments[0]) if arguments else _POLL_COUNT
        messages = self._subscribed().poll(count)
        self._print(messages)
        if not messages:
            note("nothing new")

    def _stream(self, arguments: list[str]) -> None:
        subscription = self._subscribed()
        note("Ctrl-C ends")
        try:
            while True:
                messages = subscription.poll(_STREAM_COUNT)
                self._print(messages)
                subscription.done_with(messages)
        except KeyboardInterrupt:
            typer.echo()

    def _seek(self, arguments: list[str]) -> None:
        begin = read_start_point(arguments[0], now_ms())
        partition = _read_count(arguments[1]) if len(arguments) > 1 else None
        typer.echo(self._subscribed().seek(begin.offset, begin.timestamp_ms, partition))

    def _commit(self, arguments: list[str]) -> None:
        typer.echo(self._subscribed().commit())

    def _nack(self, arguments: list[str]) -> None:
        typer.echo(self._subscribed().nack(" ".join(arguments)))

    def _set_mode(self, arguments: list[str]) -> None:
        if arguments:
            if arguments[0] not in MODES:
                raise InvalidArgumentError(f"a mode is one of {', '.join(MODES)}")
            self._mode = arguments[0]
        typer.echo(f"subscribe reads in mode {self._mode or 'queue with a group, else manual'}")

    def _topics(self, arguments: list[str]) -> None:
        names = self.topic_names()
        typer.echo("\n".join(names) if names else "there are no topics; `send` makes one")

    def _status(self, arguments: list[str]) -> None:
        keys = ("node", "client", "is_alive", "is_controller", "leads", "replicas")
        columns = ("node", "address", "alive", "controller", "leads", "replicas")
        rows = broker_rows(self._client.admin.metadata())
        print_table(columns, [[row[key] for key in keys] for row in rows])
        typer.echo("no subscription" if self._subscription is None else self._subscription.describe())

    def _help(self, arguments: list[str]) -> None:
        chosen = [find_word(arguments[0])] if arguments else WORDS
        print_table(("command", "what it does"), [(word.usage, word.help) for word in chosen])

    def _subscribed(self) -> Subscription:
        if self._subscription is None:
            raise InvalidArgumentError("no subscription yet: subscribe TOPIC")
        return self._subscription

    def _print(self, messages: "list[Message] | list[QueueMessage]") -> None:
        shape = formatter(Format.LONG, is_terminal=sys.stdout.isatty())
        for message in messages:
            typer.echo(shape(message), nl=False)


def _read_count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise InvalidArgumentError(f"{text!r} is not a number")
    return int(text)


class _Editing:
    """History and completion. A Python without readline has neither."""

    def __init__(self, topics: Callable[[], list[str]]) -> None:
        self._topics = topics
        self._completions: list[str] = []
        self._readline: Any = None

    def __enter__(self) -> None:
        try:
            import readline
        except ImportError:
            return
        self._readline = readline
        readline.set_completer(self._complete)
        readline.set_completer_delims(" ")
        is_libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
        readline.set_history_length(_HISTORY_LINES_MAX)
        try:
            readline.read_history_file(_history_file())
        except OSError:
            # There is none the first time; a damaged one is ignored.
            pass

    def __exit__(self, *_: object) -> None:
        if self._readline is None:
            return
        self._readline.set_completer(None)
        try:
            _history_file().parent.mkdir(parents=True, exist_ok=True)
            self._readline.write_history_file(_history_file())
        except OSError as error:
            note(f"the history cannot be saved: {error.strerror}")

    def _complete(self, text: str, state: int) -> str | None:
        if state == 0:
            line = self._readline.get_line_buffer()[: self._readline.get_endidx()]
            try:
                self._completions = completions(line, self._topics() if " " in line else ())
            except FlotillaError:
                # Completion must not print errors.
                self._completions = []
        return self._completions[state] if state < len(self._completions) else None


def _history_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "flotilla" / "shell_history"
