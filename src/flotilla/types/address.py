"""Addresses of nodes: a host and a port, written `host:port` or `[ipv6]:port`.

Names are not looked up here. Formatting a parsed address and parsing it again changes nothing.
"""

import re
from collections.abc import Sequence
from ipaddress import IPv6Address
from typing import NamedTuple

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import NodeId

PORT_MAX = 65_535
#: Where brokers listen for clients.
PORT_DEFAULT = 7600

_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[0-9A-Za-z:.%_-]+)\]|(?P<host>[0-9A-Za-z_.-]{1,253})):(?P<port>[0-9]{1,5})")
_IPV4_LOOPBACK = re.compile(r"127(\.[0-9]{1,3}){3}")
_WILDCARDS = ("0.0.0.0", "::")


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_wildcard(self) -> bool:
        """Listens on every interface; cannot be dialled."""
        return self.host in _WILDCARDS

    @property
    def is_loopback(self) -> bool:
        """Reachable from this machine only."""
        return self.host in ("localhost", "::1") or _IPV4_LOOPBACK.fullmatch(self.host) is not None


class Peer(NamedTuple):
    """A node and where it listens to other nodes. `dict` of several is a look-up."""

    node: NodeId
    address: Address


def parse_address(text: str) -> Address:
    """Raises ValueError."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise ValueError("not host:port")
    host = match["host"] or str(IPv6Address(match["ipv6"]))
    port = int(match["port"])
    if port > PORT_MAX:
        raise ValueError("no such port")
    return Address(host, port)


def read_addresses(given: str | Sequence[str]) -> list[Address]:
    """Addresses of brokers as users write them: `host` or `host:port`, in a list or separated by commas."""
    texts = given.split(",") if isinstance(given, str) else given
    addresses = []
    for text in map(str.strip, texts):
        try:
            addresses.append(parse_address(text if ":" in text else f"{text}:{PORT_DEFAULT}"))
        except ValueError as error:
            raise InvalidArgumentError(f"{text!r} is not the address of a broker: {error}") from error
    if not addresses:
        raise InvalidArgumentError("a client needs the address of at least one broker")
    return addresses
