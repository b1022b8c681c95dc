"""Kinds of setting values: how a value is written, read and shown, and which values are allowed.

A kind reads text (a flag, a variable, a string in a file) and, where a file can say it better, the file's own number,
truth value, list or table. `read` raises ValueError; the reader of a setting adds its name and where the value came
from. For every allowed value, `read(format(value)) == value`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from flotilla.types.address import PORT_MAX, Address, Peer, parse_address
from flotilla.types.notation import (
    DURATION_UNITS,
    SIZE_UNITS,
    Watermark,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
    parse_watermark,
)
from flotilla.types.slotted import frozen

#: A value as JSON says it.
Plain: TypeAlias = int | str | list[str] | dict[str, str] | None

NODE_ID_MAX: Final = 2**32 - 1
#: The largest integer that JSON keeps without losing digits.
UNBOUNDED: Final = 2**53 - 1

_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_HOST = re.compile(r"[0-9A-Za-z_.-]{1,253}", re.ASCII)
_SWITCH_WORDS: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def _same(value: Any) -> Any:
    return value


@frozen
class Kind:
    """Values go through `read` on their way in, `format` and `plain` on their way out."""

    #: What may be written, as the end of a sentence that begins with "expected".
    allowed: str
    #: The same in a word or two, for help.
    shape: str
    #: Text to a value. Raises ValueError with the reason.
    parse: Callable[[str], object]
    #: Whether a value is of this kind and within its bounds.
    accepts: Callable[[object], bool]
    format: Callable[[Any], str] = str
    plain: Callable[[Any], Plain] = str
    #: What a file holds, other than text, to a value. Raises ValueError.
    adopt: Callable[[Any], object] = _same
    #: The bounds of a number.
    minimum: int = 0
    maximum: int = 0

    def read(self, raw: object) -> Any:
        """Raises ValueError if that is not an allowed value."""
        value = self.parse(raw) if isinstance(raw, str) else self.adopt(raw)
        if not self.accepts(value):
            raise ValueError(f"expected {self.allowed}")
        return value


def whole(minimum: int, maximum: int) -> Kind:
    return _number(minimum, maximum, "a whole number", "NUMBER", _parse_whole, str)


def duration(minimum: int, maximum: int) -> Kind:
    """Milliseconds."""
    return _number(minimum, maximum, "a duration", "DURATION", parse_duration, format_duration, DURATION_UNITS)


def size(minimum: int, maximum: int) -> Kind:
    """Bytes."""
    return _number(minimum, maximum, "a size", "SIZE", parse_size, format_size, SIZE_UNITS)


def watermark() -> Kind:
    """Room that is to stay free on a disk; 0: there is no watermark."""

    def accepts(value: object) -> bool:
        return isinstance(value, Watermark) and value.percent <= 50 and value.size_bytes <= UNBOUNDED

    return Kind(
        allowed=f"a size (units: {', '.join(SIZE_UNITS)}), or a share of the disk from 1% to 50%, or 0",
        shape="SIZE|PERCENT",
        parse=parse_watermark,
        accepts=accepts,
        adopt=lambda raw: Watermark(raw) if type(raw) is int and raw >= 0 else raw,
    )


def _number(
    minimum: int,
    maximum: int,
    noun: str,
    shape: str,
    parse: Callable[[str], int],
    show: Callable[[int], str],
    units: Mapping[str, int] | None = None,
) -> Kind:
    bounds = f"from {show(minimum)}" + ("" if maximum == UNBOUNDED else f" to {show(maximum)}")
    allowed = f"{noun} {bounds}" + (f" (units: {', '.join(units)})" if units else "")

    def accepts(value: object) -> bool:
        # A bool is an int to Python and a mistake here.
        return isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum

    return Kind(
        allowed="0 or 1" if (minimum, maximum) == (0, 1) else allowed,
        shape=shape,
        parse=parse,
        accepts=accepts,
        format=show,
        plain=_same,
        minimum=minimum,
        maximum=maximum,
    )


def _parse_whole(text: str) -> int:
    if _WHOLE.fullmatch(text) is None:
        raise ValueError("not a whole number")
    return int(text)


def switch(none: str = "") -> Kind:
    """True or false. The word `none` stands for None."""

    def parse(text: str) -> object:
        # What is no word is refused as a text.
        return None if none and text.lower() == none else _SWITCH_WORDS.get(text.lower(), text)

    return Kind(
        allowed=f"true, false or {none}" if none else "true or false",
        shape=f"true|false|{none}" if none else "true|false",
        parse=parse,
        accepts=lambda value: isinstance(value, bool) or (bool(none) and value is None),
        format=lambda value: none if value is None else ("true" if value else "false"),
        plain=_same,
    )


def text(meaning: str, pattern: str = ".+") -> Kind:
    def accepts(value: object) -> bool:
        # Characters that cannot be printed would break the lines of logs and tables.
        return isinstance(value, str) and value.isprintable() and re.fullmatch(pattern, value) is not None

    return Kind(allowed=meaning, shape="TEXT", parse=_same, accepts=accepts)


def file_path() -> Kind:
    """A file; empty: none."""

    def accepts(value: object) -> bool:
        return isinstance(value, str) and value.isprintable()

    return Kind(allowed="a path that can be printed", shape="FILE", parse=_same, accepts=accepts)


def choice(*words: str) -> Kind:
    allowed = f"{', '.join(words[:-1])} or {words[-1]}"
    return Kind(allowed, "|".join(words), parse=_same, accepts=lambda value: value in words)


def endpoint(none: str = "", *, port_min: int = 1) -> Kind:
    """An address. The word `none` stands for None; port 0 lets a listener take any free port."""

    def accepts(value: object) -> bool:
        if value is None:
            return bool(none)
        return isinstance(value, Address) and port_min <= value.port <= PORT_MAX

    return Kind(
        allowed="host:port" + (f", or {none}" if none else ""),
        shape="HOST:PORT",
        parse=lambda text: None if none and text == none else parse_address(text),
        accepts=accepts,
        format=lambda value: none if value is None else str(value),
        plain=lambda value: None if value is None else str(value),
    )


def endpoints() -> Kind:
    """Addresses in order, each once; a tuple."""

    def parse(text: str) -> object:
        return tuple(parse_address(part.strip()) for part in text.split(",")) if text.strip() else ()

    def accepts(value: object) -> bool:
        if not isinstance(value, tuple) or len({*value}) < len(value):
            return False
        return all(isinstance(address, Address) and address.port for address in value)

    return Kind(
        allowed="host:port, several separated by commas, none twice",
        shape="HOST:PORT,...",
        parse=parse,
        accepts=accepts,
        format=lambda value: ",".join(map(str, value)),
        plain=lambda value: [str(address) for address in value],
        adopt=lambda raw: tuple(parse_address(_text(part)) for part in raw) if isinstance(raw, list) else raw,
    )


def hosts() -> Kind:
    """Host names without ports, each once; a tuple. `*` is any name."""

    def parse(text: str) -> object:
        return tuple(part.strip() for part in text.split(",")) if text.strip() else ()

    def accepts(value: object) -> bool:
        if not isinstance(value, tuple) or not all(isinstance(name, str) for name in value):
            return False
        return len({*value}) == len(value) and all(name == "*" or _HOST.fullmatch(name) for name in value)

    return Kind(
        allowed="names without ports, several separated by commas, none twice; * for any",
        shape="NAME,...",
        parse=parse,
        accepts=accepts,
        format=",".join,
        plain=list,
        adopt=lambda raw: tuple(raw) if isinstance(raw, list) else raw,
    )


def peers() -> Kind:
    """Nodes with their addresses, by node id, each id and each address once; a tuple of Peer."""

    def parse(text: str) -> object:
        pairs = [part.partition("=") for part in text.split(",")] if text.strip() else []
        return _peers([(node.strip(), address.strip()) for node, _, address in pairs])

    def adopt(raw: object) -> object:
        return _peers([(node, _text(address)) for node, address in raw.items()]) if isinstance(raw, Mapping) else raw

    def accepts(value: object) -> bool:
        if not isinstance(value, tuple) or not all(isinstance(peer, Peer) for peer in value):
            return False
        nodes = {peer.node for peer in value}
        addresses = {peer.address for peer in value}
        is_within = all(1 <= peer.node <= NODE_ID_MAX and peer.address.port for peer in value)
        return is_within and len(nodes) == len(addresses) == len(value)

    return Kind(
        allowed="id=host:port, several separated by commas, no id and no address twice",
        shape="ID=HOST:PORT,...",
        parse=parse,
        accepts=accepts,
        format=lambda value: ",".join(f"{peer.node}={peer.address}" for peer in value),
        plain=lambda value: {str(peer.node): str(peer.address) for peer in value},
        adopt=adopt,
    )


def nodes() -> Kind:
    """Node ids in ascending order, each once; a tuple."""

    def parse(text: str) -> object:
        return tuple(sorted(_parse_whole(part.strip()) for part in text.split(","))) if text.strip() else ()

    def accepts(value: object) -> bool:
        if not isinstance(value, tuple) or len({*value}) < len(value):
            return False
        return all(isinstance(node, int) and 1 <= node <= NODE_ID_MAX for node in value)

    return Kind(
        allowed="node ids, several separated by commas, none twice",
        shape="ID,...",
        parse=parse,
        accepts=accepts,
        format=lambda value: ",".join(map(str, value)),
        plain=lambda value: [str(node) for node in value],
        adopt=lambda raw: tuple(sorted(_parse_whole(str(part)) for part in raw)) if isinstance(raw, list) else raw,
    )


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise ValueError("not text")
    return raw


def _peers(pairs: list[tuple[str, str]]) -> tuple[Peer, ...]:
    return tuple(sorted([Peer(_parse_whole(node), parse_address(address)) for node, address in pairs]))
