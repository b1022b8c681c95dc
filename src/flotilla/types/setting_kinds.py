"""What sorts of value a setting can hold: how each is written, read, shown, and which values are allowed.

A kind reads text (from a flag, a variable or a string in a file) and, where a file can say it better,
the file's own number, truth value, list or table. It raises ValueError without a reason: `allowed`
says all there is to know, and whoever reads a setting adds its name and where the value came from.
For every allowed value, `read(format(value)) == value`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from flotilla.types.address import PORT_MAX, Address, Peer, parse_address
from flotilla.types.notation import DURATION_UNITS, SIZE_UNITS, format_duration, format_size, parse_duration, parse_size

#: What JSON can say of a value.
Plain: TypeAlias = int | str | list[str] | dict[str, str] | None

NODE_ID_MAX = 2**32 - 1

_WHOLE = re.compile(r"-?[0-9]{1,18}")
_SWITCH_WORDS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


class Kind(ABC):
    """Values go through `read` on their way in, `format` and `plain` on their way out."""

    @property
    @abstractmethod
    def allowed(self) -> str:
        """What may be written, as the end of a sentence that begins with "expected"."""

    @property
    @abstractmethod
    def shape(self) -> str:
        """The same in a word or two, for help."""

    def read(self, raw: object) -> object:
        """Raises ValueError if that is not an allowed value."""
        value = self.parse(raw) if isinstance(raw, str) else self.adopt(raw)
        if not self.accepts(value):
            raise ValueError("not allowed")
        return value

    @abstractmethod
    def parse(self, text: str) -> object:
        """Raises ValueError if the text says nothing of this kind."""

    def adopt(self, raw: object) -> object:
        """A value that is not text. Most kinds take it as it is and leave the verdict to `accepts`."""
        return raw

    @abstractmethod
    def accepts(self, value: object) -> bool:
        """Whether a value is of this kind and within its bounds."""

    def format(self, value: object) -> str:
        return str(value)

    def plain(self, value: object) -> Plain:
        return self.format(value)


@dataclass(frozen=True)
class Whole(Kind):
    low: int
    high: int

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    @property
    def shape(self) -> str:
        return "NUMBER"

    def parse(self, text: str) -> object:
        if _WHOLE.fullmatch(text) is None:
            raise ValueError("not a whole number")
        return int(text)

    def accepts(self, value: object) -> bool:
        # True and False are whole numbers to the language, but nobody means them.
        return isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high

    def plain(self, value: object) -> Plain:
        assert isinstance(value, int)
        return value


@dataclass(frozen=True)
class Duration(Whole):
    """Milliseconds."""

    @property
    def allowed(self) -> str:
        units = ", ".join(DURATION_UNITS)
        return f"a duration from {format_duration(self.low)} to {format_duration(self.high)} (units: {units})"

    @property
    def shape(self) -> str:
        return "DURATION"

    def parse(self, text: str) -> object:
        return parse_duration(text)

    def format(self, value: object) -> str:
        assert isinstance(value, int)
        return format_duration(value)


@dataclass(frozen=True)
class Size(Whole):
    """Bytes."""

    @property
    def allowed(self) -> str:
        units = ", ".join(SIZE_UNITS)
        return f"a size from {format_size(self.low)} to {format_size(self.high)} (units: {units})"

    @property
    def shape(self) -> str:
        return "SIZE"

    def parse(self, text: str) -> object:
        return parse_size(text)

    def format(self, value: object) -> str:
        assert isinstance(value, int)
        return format_size(value)


@dataclass(frozen=True)
class Switch(Kind):
    @property
    def allowed(self) -> str:
        return "true or false"

    @property
    def shape(self) -> str:
        return "true|false"

    def parse(self, text: str) -> object:
        value = _SWITCH_WORDS.get(text.lower())
        if value is None:
            raise ValueError("neither")
        return value

    def accepts(self, value: object) -> bool:
        return isinstance(value, bool)

    def format(self, value: object) -> str:
        return "true" if value else "false"

    def plain(self, value: object) -> Plain:
        assert isinstance(value, bool)
        return value


@dataclass(frozen=True)
class Text(Kind):
    meaning: str
    pattern: str = ".+"

    @property
    def allowed(self) -> str:
        return self.meaning

    @property
    def shape(self) -> str:
        return "TEXT"

    def parse(self, text: str) -> object:
        return text

    def accepts(self, value: object) -> bool:
        # What cannot be printed would break lines of logs and tables.
        return isinstance(value, str) and value.isprintable() and re.fullmatch(self.pattern, value) is not None


@dataclass(frozen=True)
class Choice(Kind):
    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        return f"{', '.join(self.words[:-1])} or {self.words[-1]}"

    @property
    def shape(self) -> str:
        return "|".join(self.words)

    def parse(self, text: str) -> object:
        return text

    def accepts(self, value: object) -> bool:
        return value in self.words


@dataclass(frozen=True)
class Endpoint(Kind):
    """An address. With a word for `none`, that word stands for None."""

    none: str = ""
    #: 0 lets a listener take any free port.
    port_min: int = 1

    @property
    def allowed(self) -> str:
        return "host:port" + (f", or {self.none}" if self.none else "")

    @property
    def shape(self) -> str:
        return "HOST:PORT"

    def parse(self, text: str) -> object:
        return None if self.none and text == self.none else parse_address(text)

    def accepts(self, value: object) -> bool:
        if value is None:
            return bool(self.none)
        return isinstance(value, Address) and self.port_min <= value.port <= PORT_MAX

    def format(self, value: object) -> str:
        return self.none if value is None else str(value)

    def plain(self, value: object) -> Plain:
        return None if value is None else str(value)


@dataclass(frozen=True)
class Endpoints(Kind):
    """Addresses in order, each once; a tuple."""

    @property
    def allowed(self) -> str:
        return "host:port, several separated by commas, none twice"

    @property
    def shape(self) -> str:
        return "HOST:PORT,..."

    def parse(self, text: str) -> object:
        return tuple(parse_address(part.strip()) for part in text.split(",")) if text.strip() else ()

    def adopt(self, raw: object) -> object:
        return tuple(parse_address(_text(part)) for part in raw) if isinstance(raw, list) else raw

    def accepts(self, value: object) -> bool:
        return (
            isinstance(value, tuple)
            and all(isinstance(address, Address) and address.port for address in value)
            and len({*value}) == len(value)
        )

    def format(self, value: object) -> str:
        return ",".join(self.plain(value))

    def plain(self, value: object) -> list[str]:
        assert isinstance(value, tuple)
        return [str(address) for address in value]


@dataclass(frozen=True)
class Peers(Kind):
    """Nodes with their addresses, by node id, each id and each address once; a tuple of Peer."""

    @property
    def allowed(self) -> str:
        return "id=host:port, several separated by commas, no id and no address twice"

    @property
    def shape(self) -> str:
        return "ID=HOST:PORT,..."

    def parse(self, text: str) -> object:
        pairs = [part.partition("=") for part in text.split(",")] if text.strip() else []
        return _peers([(node.strip(), address.strip()) for node, _, address in pairs])

    def adopt(self, raw: object) -> object:
        return _peers([(node, _text(address)) for node, address in raw.items()]) if isinstance(raw, Mapping) else raw

    def accepts(self, value: object) -> bool:
        if not isinstance(value, tuple) or not all(isinstance(peer, Peer) for peer in value):
            return False
        nodes = {peer.node for peer in value}
        addresses = {peer.address for peer in value}
        is_within = all(1 <= peer.node <= NODE_ID_MAX and peer.address.port for peer in value)
        return is_within and len(nodes) == len(addresses) == len(value)

    def format(self, value: object) -> str:
        return ",".join(f"{node}={address}" for node, address in self.plain(value).items())

    def plain(self, value: object) -> dict[str, str]:
        assert isinstance(value, tuple)
        return {str(peer.node): str(peer.address) for peer in value}


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise ValueError("not text")
    return raw


def _peers(pairs: list[tuple[str, str]]) -> tuple[Peer, ...]:
    peers = []
    for node, address in pairs:
        if _WHOLE.fullmatch(node) is None:
            raise ValueError("not a node id")
        peers.append(Peer(int(node), parse_address(address)))
    return tuple(sorted(peers))
