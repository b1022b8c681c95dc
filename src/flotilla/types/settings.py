"""The settings of a node: one table, from which flags, variables, file keys, documents and `config show` come.

The table is the class NodeSettings: a field is a row, with its kind, default, section, scope and
help. To add a setting, add a field; nothing else lists them. A key is the same word everywhere:
`http_listen` in the file, `--http-listen` as a flag, `FLOTILLA_HTTP_LISTEN` in the environment. The
end of a key says what a bare number counts (`_ms`, `_bytes`).

Values arrive with their origin, so that every complaint says what to mend and where. Reading files
and the environment is not done here.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, NamedTuple

from flotilla.types import limits
from flotilla.types.address import Address, Peer
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import NodeId
from flotilla.types.limits import KIB, MIB
from flotilla.types.setting_kinds import (
    NODE_ID_MAX,
    Choice,
    Duration,
    Endpoint,
    Endpoints,
    Kind,
    Peers,
    Size,
    Switch,
    Text,
    Whole,
)

VARIABLE_PREFIX = "FLOTILLA_"

#: How much of a bad value a complaint repeats.
_QUOTE_CHARS_MAX = 80


class Scope(Enum):
    #: May differ from one node to the next.
    NODE = "node"
    #: Must be the same on every node of a cluster.
    CLUSTER = "cluster"


class OriginKind(Enum):
    """Where a value can come from, the strongest last."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


class Origin(NamedTuple):
    kind: OriginKind
    #: The file, the variable or the flag; empty for a default.
    place: str = ""

    def __str__(self) -> str:
        return f"{self.kind.value} {self.place}".rstrip()


@dataclass(frozen=True, slots=True)
class Given:
    """A value as it was found: text, or what a file can hold."""

    raw: Any
    origin: Origin


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table."""

    name: str
    kind: Kind
    default: Any
    section: str
    scope: Scope
    help: str

    @property
    def variable(self) -> str:
        return VARIABLE_PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


def _row(kind: Kind, section: str, help: str, scope: Scope = Scope.NODE) -> dict[str, Any]:  # noqa: A002
    return {"kind": kind, "section": section, "help": help, "scope": scope}


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Every setting with its default. `validate` holds the bounds and the rules between settings."""

    node_id: NodeId = field(
        default=1,
        metadata=_row(
            Whole(1, NODE_ID_MAX),
            "Node",
            "Who this node is. No two nodes of a cluster share an id, also not over time.",
        ),
    )
    data_dir: str = field(
        default="./flotilla-data",
        metadata=_row(
            Text("a path that can be printed"),
            "Node",
            "The folder with everything the node keeps. It is made if it is not there; one node at a time may use it.",
        ),
    )

    listen: Address = field(
        default=Address("127.0.0.1", 7600),
        metadata=_row(Endpoint(port_min=0), "Addresses", "Where clients connect. Port 0 takes a free one."),
    )
    peer_listen: Address = field(
        default=Address("127.0.0.1", 7601),
        metadata=_row(Endpoint(port_min=0), "Addresses", "Where the other nodes connect."),
    )
    grpc_listen: Address | None = field(
        default=Address("127.0.0.1", 7650),
        metadata=_row(Endpoint("off", port_min=0), "Addresses", "Where gRPC clients connect."),
    )
    http_listen: Address | None = field(
        default=Address("127.0.0.1", 7680),
        metadata=_row(
            Endpoint("off", port_min=0), "Addresses", "Where HTTP is served: REST, tasks, health and metrics."
        ),
    )
    advertise: Address | None = field(
        default=None,
        metadata=_row(
            Endpoint("auto"), "Addresses", "The address that clients are told to connect to; auto tells `listen`."
        ),
    )
    peer_advertise: Address | None = field(
        default=None,
        metadata=_row(
            Endpoint("auto"),
            "Addresses",
            "The address that other nodes are told to connect to; auto tells what `peers` says of this node, "
            "else `peer_listen`.",
        ),
    )

    cluster_id: str = field(
        default="flotilla",
        metadata=_row(
            Text("1 to 64 letters, digits, dots, dashes and underscores", "[A-Za-z0-9._-]{1,64}"),
            "Cluster",
            "The name of the cluster. Nodes of different names refuse each other.",
            Scope.CLUSTER,
        ),
    )
    peers: tuple[Peer, ...] = field(
        default=(),
        metadata=_row(
            Peers(),
            "Cluster",
            "The first members of a new cluster by id, with their `peer_listen` addresses. It may name this node too, "
            "so that all nodes can be given the same list.",
        ),
    )
    join: tuple[Address, ...] = field(
        default=(),
        metadata=_row(
            Endpoints(), "Cluster", "Client addresses of a running cluster that this node shall become a member of."
        ),
    )

    await_init: bool = field(
        default=False,
        metadata=_row(Switch(), "Cluster", "Wait for `flotilla cluster init` instead of founding a cluster alone."),
    )
    auto_create_topics: bool = field(
        default=True,
        metadata=_row(Switch(), "Topics", "Create a topic when somebody first produces to it.", Scope.CLUSTER),
    )
    default_partitions: int = field(
        default=1,
        metadata=_row(
            Whole(1, 1024), "Topics", "Partitions of a topic that is created without saying how many.", Scope.CLUSTER
        ),
    )
    default_replication_factor: int = field(
        default=3,
        metadata=_row(
            Whole(1, 7),
            "Topics",
            "Replicas of each partition of a topic that is created without saying how many; never more than nodes.",
            Scope.CLUSTER,
        ),
    )

    election_timeout_ms: int = field(
        default=1_000,
        metadata=_row(
            Duration(200, 60_000),
            "Consensus",
            "A follower that hears nothing for this long, and up to twice as long by chance, stands for election.",
            Scope.CLUSTER,
        ),
    )
    heartbeat_ms: int = field(
        default=300,
        metadata=_row(
            Duration(100, 10_000), "Consensus", "A leader speaks to its followers at least this often.", Scope.CLUSTER
        ),
    )
    quiesce_ms: int = field(
        default=3_000,
        metadata=_row(
            Duration(0, 3_600_000),
            "Consensus",
            "A partition without work for this long goes to sleep and costs nothing; 0 keeps it awake.",
            Scope.CLUSTER,
        ),
    )

    journal_file_bytes: int = field(
        default=limits.JOURNAL_FILE_BYTES,
        metadata=_row(
            Size(1 * MIB, 1024 * MIB), "Storage", "Size of one file of the journal, which is allocated in advance."
        ),
    )
    segment_file_bytes: int = field(
        default=limits.SEGMENT_FILE_BYTES,
        metadata=_row(
            Size(64 * KIB, 1024 * MIB),
            "Storage",
            "A partition's segment is closed when it has grown to this size. Retention removes whole segments.",
        ),
    )
    open_files_max: int = field(
        default=256, metadata=_row(Whole(16, 65_536), "Storage", "Segments kept open for reading.")
    )

    proposal_bytes_max: int = field(
        default=limits.PROPOSAL_BYTES_MAX,
        metadata=_row(
            Size(limits.ENTRY_BYTES_MAX, 1024 * MIB),
            "Limits",
            "Uncommitted bytes of one partition; beyond that producers are refused and come again.",
        ),
    )
    proposal_count_max: int = field(
        default=limits.PROPOSAL_COUNT_MAX,
        metadata=_row(
            Whole(1, 1_048_576),
            "Limits",
            "Uncommitted batches of one partition; beyond that producers are refused and come again.",
        ),
    )

    move_bytes_per_second: int = field(
        default=limits.MOVE_BYTES_PER_SECOND,
        metadata=_row(
            Size(64 * KIB, 16 * 1024 * MIB),
            "Limits",
            "How fast a node sends what new replicas of its partitions lack, for all of them together; what producers "
            "write meanwhile comes on top.",
        ),
    )

    log_level: str = field(
        default="info",
        metadata=_row(
            Choice(("debug", "info", "warning", "error")), "Logs", "The least important events that are logged."
        ),
    )
    log_format: str = field(
        default="auto",
        metadata=_row(
            Choice(("auto", "console", "json")),
            "Logs",
            "How events are written to standard error; auto is console on a terminal and JSON lines elsewhere.",
        ),
    )

    @property
    def other_peers(self) -> dict[NodeId, Address]:
        """The first members of the cluster without this node."""
        return {peer.node: peer.address for peer in self.peers if peer.node != self.node_id}

    @property
    def advertised(self) -> Address:
        """Where clients are told to connect."""
        return self.advertise or self.listen

    @property
    def peer_advertised(self) -> Address:
        """Where other nodes are told to connect."""
        return self.peer_advertise or dict(self.peers).get(self.node_id) or self.peer_listen

    @property
    def cluster_digest(self) -> bytes:
        """The sixteen bytes by which nodes of one cluster know each other."""
        return hashlib.blake2b(self.cluster_id.encode(), digest_size=16).digest()

    def validate(self, origins: Mapping[str, Origin] | None = None) -> None:
        """Raises InvalidArgumentError for the first value that is out of bounds or does not go with another."""
        for setting in SETTINGS:
            if not setting.kind.accepts(getattr(self, setting.name)):
                raise InvalidArgumentError(f"{self._said(setting.name, origins)}: expected {setting.kind.allowed}")
        broken = [*self._broken_address_rules(), *self._broken_time_rules()]
        if broken:
            names, rule = broken[0]
            said = " and ".join(self._said(name, origins) for name in names)
            raise InvalidArgumentError(f"{said}: {rule}")

    def _broken_time_rules(self) -> list[tuple[tuple[str, ...], str]]:
        broken: list[tuple[tuple[str, ...], str]] = []
        if self.election_timeout_ms < 2 * self.heartbeat_ms:
            rule = "an election timeout is at least two heartbeats long"
            broken.append((("election_timeout_ms", "heartbeat_ms"), rule))
        if 0 < self.quiesce_ms < self.heartbeat_ms:
            rule = "a partition stays awake for at least one heartbeat; 0 keeps it awake for ever"
            broken.append((("quiesce_ms", "heartbeat_ms"), rule))
        return broken

    def _broken_address_rules(self) -> list[tuple[tuple[str, ...], str]]:
        broken: list[tuple[tuple[str, ...], str]] = []
        if self.peers and self.join:
            broken.append((("peers", "join"), "a node either forms a new cluster or joins a running one"))
        names = ("listen", "peer_listen", "grpc_listen", "http_listen")
        for at, name in enumerate(names):
            for other in names[at + 1 :]:
                if _collide(getattr(self, name), getattr(self, other)):
                    broken.append(((name, other), "two services cannot listen at one address"))
        others = [*self.other_peers.values(), *self.join]
        for name, address in (("advertise", self.advertised), ("peer_advertise", self.peer_advertised)):
            if others and address.is_wildcard:
                broken.append(((name,), f"others cannot connect to {address}; say where they can"))
            elif address.is_loopback and not all(other.is_loopback for other in others):
                broken.append(((name,), f"nodes on other machines cannot connect to {address}; say where they can"))
        return broken

    def _said(self, name: str, origins: Mapping[str, Origin] | None) -> str:
        kind = SETTINGS_BY_NAME[name].kind
        value = getattr(self, name)
        shown = _quote(kind.format(value) if kind.accepts(value) else value)
        origin = f" ({origins[name]})" if origins is not None else ""
        return f"{name} = {shown}{origin}"


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    settings: NodeSettings
    #: Of every setting, where its value came from.
    origins: Mapping[str, Origin]


def _setting(name: str, default: object, metadata: Mapping[str, Any]) -> Setting:
    return Setting(name, metadata["kind"], default, metadata["section"], metadata["scope"], metadata["help"])


#: The table, in the order in which it is shown.
SETTINGS: tuple[Setting, ...] = tuple(_setting(row.name, row.default, row.metadata) for row in fields(NodeSettings))
SETTINGS_BY_NAME: dict[str, Setting] = {setting.name: setting for setting in SETTINGS}


def resolve(given: Mapping[str, Given]) -> LoadedSettings:
    """Puts values over the defaults. Every key must be known. Raises InvalidArgumentError for a bad value."""
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for setting in SETTINGS:
        found = given.get(setting.name)
        if found is None:
            origins[setting.name] = Origin(OriginKind.DEFAULT)
            continue
        origins[setting.name] = found.origin
        try:
            values[setting.name] = setting.kind.read(found.raw)
        except ValueError:
            shown = f"{setting.name} = {_quote(found.raw)} ({found.origin})"
            raise InvalidArgumentError(f"{shown}: expected {setting.kind.allowed}") from None
    settings = NodeSettings(**values)
    settings.validate(origins)
    return LoadedSettings(settings, origins)


def _collide(one: Address | None, other: Address | None) -> bool:
    if one is None or other is None or one.port != other.port or one.port == 0:
        return False
    return one.host == other.host or one.is_wildcard or other.is_wildcard


def _quote(raw: object) -> str:
    text = repr(raw)
    return text if len(text) <= _QUOTE_CHARS_MAX else f"{text[:_QUOTE_CHARS_MAX]}..."
