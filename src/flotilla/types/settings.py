"""The settings of a node: one table, from which flags, variables, file keys, documents and `config show` come.

The table is the class NodeSettings: a field is a row, with its default, kind, section, help and scope. To add a
setting, add a field; nothing else lists them. A key is the same word everywhere: `http_listen` in the file,
`--http-listen` as a flag, `FLOTILLA_HTTP_LISTEN` in the environment. The end of a key says what a bare number counts
(`_ms`, `_bytes`).

Values arrive with their origin, so that every error says what to mend and where. `runtime/settings_loader` reads files
and the environment.
"""
# ruff: noqa: RUF009 - a row is a dataclass field, made by a function.

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Final, NamedTuple

from flotilla.types import limits, timing
from flotilla.types.address import Address, Peer
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import NodeId
from flotilla.types.limits import KIB, MIB
from flotilla.types.notation import Watermark
from flotilla.types.setting_kinds import (
    NODE_ID_MAX,
    Kind,
    choice,
    duration,
    endpoint,
    endpoints,
    file_path,
    hosts,
    nodes,
    peers,
    size,
    switch,
    text,
    watermark,
    whole,
)
from flotilla.types.setting_table import Scope, Setting, SettingTable

#: How much of a bad value an error message repeats.
_QUOTE_CHARS_MAX = 80


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


def _row(default: Any, kind: Kind, section: str, help: str, scope: Scope = Scope.NODE) -> Any:  # noqa: A002
    return field(default=default, metadata={"kind": kind, "section": section, "help": help, "scope": scope})


_LABEL: Final = "up to 253 letters, digits, dots, dashes and underscores"
_LABEL_PATTERN: Final = "[A-Za-z0-9._-]{0,253}"
JOIN_RULE: Final = (
    "other machines can connect there, and whoever does can become a node; use TLS, or give all nodes a file with the "
    "same secret (openssl rand -hex 32)"
)
INSECURE_RULE: Final = "other machines can connect there, and whoever does can read, change and delete everything"


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Every setting with its default. `validate` holds the bounds and the rules between settings."""

    node_id: NodeId = _row(
        1,
        whole(1, NODE_ID_MAX),
        "Node",
        "The id of this node. No two nodes of a cluster share an id, and none is used again.",
    )
    data_dir: str = _row(
        "./flotilla-data",
        text("a path that can be printed"),
        "Node",
        "The folder of the node's data. It is created if it is missing; one node at a time may use it.",
    )

    machine: str = _row(
        "",
        text(_LABEL, _LABEL_PATTERN),
        "Node",
        "A name for the machine of this node, where several nodes share one: no two replicas of a partition are on one "
        "machine if there are enough of them. Empty: a machine of its own.",
    )
    zone: str = _row(
        "",
        text(_LABEL, _LABEL_PATTERN),
        "Node",
        "A name for the part of the site that can fail as a whole, such as a rack or an availability zone: no two "
        "replicas of a partition are in one zone if there are enough of them. Empty: a zone of its own.",
    )

    listen: Address = _row(
        Address("127.0.0.1", 7600), endpoint(port_min=0), "Addresses", "Where clients connect. Port 0 takes a free one."
    )
    peer_listen: Address = _row(
        Address("127.0.0.1", 7601), endpoint(port_min=0), "Addresses", "Where the other nodes connect."
    )
    grpc_listen: Address | None = _row(
        Address("127.0.0.1", 7650), endpoint("off", port_min=0), "Addresses", "Where gRPC clients connect."
    )
    grpc_tls_listen: Address | None = _row(
        None,
        endpoint("off", port_min=0),
        "Addresses",
        "Where gRPC clients connect with TLS while `tls_mode` is optional: `grpc_listen` is without it then.",
    )
    http_listen: Address | None = _row(
        Address("127.0.0.1", 7680),
        endpoint("off", port_min=0),
        "Addresses",
        "Where HTTP is served: REST, tasks, health and metrics.",
    )
    http_hosts: tuple[str, ...] = _row(
        (),
        hosts(),
        "Addresses",
        "Names by which HTTP clients call this node, beside addresses, localhost, the machine's and advertised names.",
    )
    advertise: Address | None = _row(
        None,
        endpoint("auto"),
        "Addresses",
        "The address that clients connect to, as the cluster reports it; auto is `listen`.",
    )
    peer_advertise: Address | None = _row(
        None,
        endpoint("auto"),
        "Addresses",
        "The address that other nodes connect to; auto is the entry in `peers`, else `peer_listen`.",
    )

    insecure: bool = _row(
        False,
        switch(),
        "Addresses",
        "Listen where other machines can connect, although nothing asks clients who they are or encrypts what they "
        "send. Only for networks that keep everybody else out. Without TLS `listen` and `peer_listen` need a "
        "`join_secret` there. TLS and `authentication` together need no such word.",
    )

    tls_certificate: str = _row(
        "",
        file_path(),
        "Encryption",
        "The certificate of this node (PEM). With it all endpoints speak TLS 1.3, and links between nodes ask both "
        "sides for their certificates. It names the node, as `flotilla cert issue` has it.",
    )
    tls_key: str = _row("", file_path(), "Encryption", "The key of the certificate. Only its owner may read it.")
    tls_ca: str = _row(
        "",
        file_path(),
        "Encryption",
        "The authorities whose certificates other nodes, and clients that show one, must have.",
    )
    tls_client_certificates: str = _row(
        "off",
        choice("off", "optional", "required"),
        "Encryption",
        "Whether clients are asked for a certificate: off, optional, or required to connect at all. gRPC knows no "
        "optional ones.",
    )

    tls_mode: str = _row(
        "required",
        choice("optional", "required"),
        "Encryption",
        "With a certificate: required refuses whoever does not speak TLS; optional accepts both on the same ports, and "
        "dials nodes without TLS that do not speak it. For switching TLS on in a running cluster.",
    )

    authentication: bool = _row(
        False,
        switch(),
        "Rights",
        "Ask everybody who connects who they are, and do for them what is granted to them. `flotilla cluster init "
        "--admin-out` makes the first user.",
        Scope.CLUSTER,
    )
    anonymous: bool = _row(
        False,
        switch(),
        "Rights",
        "With `authentication`: whoever does not log in is the user `anonymous`, who may do what is granted to it. For "
        "switching `authentication` on in a running cluster, and for topics that everybody may read.",
        Scope.CLUSTER,
    )
    token_keys: str = _row(
        "",
        file_path(),
        "Rights",
        "Public keys (JWKS) of those who issue bearer tokens (JWT). With it users may log in by tokens; the subject of "
        "a token is the user.",
    )
    token_audience: str = _row(
        "",
        text("a name without spaces, or nothing", r"\S{0,256}"),
        "Rights",
        "The audience that tokens must have; by default the name of the cluster.",
    )
    token_issuer: str = _row(
        "",
        text("a name without spaces, or nothing", r"\S{0,256}"),
        "Rights",
        "The issuer of tokens; empty: any whose key is known.",
    )

    token_issuers: str = _row(
        "",
        file_path(),
        "Rights",
        "A file that names several issuers of tokens, each with its public keys, audience and users, in place of "
        "`token_keys` and `token_issuer`.",
    )

    join_secret: str = _row(
        "",
        file_path(),
        "Rights",
        "A file with a secret that the nodes of the cluster share; only its owner may read it. Without it nobody "
        "founds, enters or joins the cluster, and links without TLS are refused.",
    )
    join_secret_mode: str = _row(
        "required",
        choice("optional", "required"),
        "Rights",
        "With a join secret: required refuses nodes that do not know it; optional accepts those that have none. For "
        "introducing the secret in a running cluster.",
    )
    join_token: str = _row(
        "",
        file_path(),
        "Rights",
        "A file with the token by which this node joins a cluster with TLS (`flotilla cluster token`). It is good "
        "once; only its owner may read it.",
    )

    cluster_name: str = _row(
        "flotilla",
        text("1 to 64 letters, digits, dots, dashes and underscores", "[A-Za-z0-9._-]{1,64}"),
        "Cluster",
        "The name of the cluster. Nodes of different names refuse each other.",
        Scope.CLUSTER,
    )
    peers: tuple[Peer, ...] = _row(
        (),
        peers(),
        "Cluster",
        "The first members of a new cluster by id, with their `peer_listen` addresses. It may name this node too, so "
        "that all nodes can be given the same list.",
    )
    found_without: tuple[NodeId, ...] = _row(
        (),
        nodes(),
        "Cluster",
        "Nodes of `peers` that a new cluster is founded without, because they cannot be asked whether they hold data. "
        "Name only nodes that never held any; they join later, with `join`.",
    )
    join: tuple[Address, ...] = _row(
        (), endpoints(), "Cluster", "Client addresses of a running cluster that this node joins."
    )
    await_init: bool = _row(
        False, switch(), "Cluster", "Wait for `flotilla cluster init` instead of founding a cluster alone."
    )

    auto_create_topics: bool | None = _row(
        None,
        switch("auto"),
        "Topics",
        "Create a topic when a client first produces to it; auto does so while no other machine can connect.",
        Scope.CLUSTER,
    )
    default_partitions: int = _row(
        1, whole(1, 1024), "Topics", "Partitions of a topic that is created without a number.", Scope.CLUSTER
    )
    default_replication_factor: int = _row(
        3,
        whole(1, 7),
        "Topics",
        "Replicas of each partition of a topic that is created without a number; never more than nodes.",
        Scope.CLUSTER,
    )

    election_timeout_ms: int = _row(
        1_000,
        duration(400, 60_000),
        "Consensus",
        "A follower that hears nothing for this long, and up to twice as long by chance, stands for election.",
        Scope.CLUSTER,
    )
    heartbeat_ms: int = _row(
        300, duration(100, 10_000), "Consensus", "A leader contacts its followers at least this often.", Scope.CLUSTER
    )
    quiesce_ms: int = _row(
        3_000,
        duration(0, 3_600_000),
        "Consensus",
        "A partition without work for this long goes to sleep and costs nothing; 0 keeps it awake.",
        Scope.CLUSTER,
    )

    journal_file_bytes: int = _row(
        limits.JOURNAL_FILE_BYTES,
        size(1 * MIB, 1024 * MIB),
        "Storage",
        "Size of one file of the journal, which is allocated in advance.",
    )
    segment_file_bytes: int = _row(
        limits.SEGMENT_FILE_BYTES,
        size(64 * KIB, 1024 * MIB),
        "Storage",
        "A partition's segment is closed when it has grown to this size. Retention removes whole segments.",
    )
    snapshot_entries: int = _row(
        10_000,
        whole(1, 10_000_000),
        "Storage",
        "A replica stores its state after this many entries, and starts from there instead of reading them again.",
    )
    open_files_max: int = _row(256, whole(16, 65_536), "Storage", "Segments kept open for reading.")
    disk_warn_free: Watermark = _row(
        Watermark(percent=5),
        watermark(),
        "Storage",
        "With less free room than this on the disk of `data_dir`, the node warns; 0: never.",
    )
    disk_refuse_free: Watermark = _row(
        Watermark(percent=1),
        watermark(),
        "Storage",
        "With less free room than this, the node hands leadership over to nodes with room. Where there are none, it "
        "refuses new messages until there is room again. Acknowledgements, trims and deletions go on; 0: it accepts "
        "messages until the disk is full.",
    )

    proposal_bytes_max: int = _row(
        limits.PROPOSAL_BYTES_MAX,
        size(limits.ENTRY_BYTES_MAX, 1024 * MIB),
        "Limits",
        "Uncommitted bytes of one partition; beyond that producers are refused and retry.",
    )
    proposal_count_max: int = _row(
        limits.PROPOSAL_COUNT_MAX,
        whole(1, 1_048_576),
        "Limits",
        "Uncommitted batches of one partition; beyond that producers are refused and retry.",
    )
    move_bytes_per_second: int = _row(
        limits.MOVE_BYTES_PER_SECOND,
        size(64 * KIB, 16 * 1024 * MIB),
        "Limits",
        "How fast a node sends data to new replicas, all together. What producers write meanwhile comes on top.",
    )
    scrub_bytes_per_second: int = _row(
        limits.SCRUB_BYTES_PER_SECOND,
        size(0, 16 * 1024 * MIB),
        "Limits",
        "How fast stored data are read again in the background, to find damage before a reader does; 0: not at all. "
        "A full pass begins at most once an hour.",
    )

    log_level: str = _row(
        "info", choice("debug", "info", "warning", "error"), "Logs", "The least important events that are logged."
    )
    log_format: str = _row(
        "auto",
        choice("auto", "console", "json"),
        "Logs",
        "How events are written to standard error; auto is console on a terminal and JSON lines elsewhere.",
    )

    audit_log: str = _row(
        "",
        file_path(),
        "Logs",
        "A file for the audit log (log-ins, denials and changes), as JSON lines whatever `log_level` is. SIGHUP has it "
        "opened again. Empty: the audit log is among the other logs.",
    )

    traces: bool = _row(
        False,
        switch(),
        "Logs",
        "Report spans of HTTP and gRPC requests to OpenTelemetry, as the variables of its SDK say; needs the extra "
        "`otel`.",
    )

    @property
    def other_peers(self) -> dict[NodeId, Address]:
        """The first members of the cluster without this node and those that it is founded without."""
        left_out = (self.node_id, *self.found_without)
        return {peer.node: peer.address for peer in self.peers if peer.node not in left_out}

    @property
    def exposed(self) -> tuple[Address, ...]:
        """The addresses at which other machines can connect."""
        addresses = (self.listen, self.peer_listen, self.grpc_listen, self.grpc_tls_listen, self.http_listen)
        return tuple(address for address in addresses if address is not None and not address.is_loopback)

    @property
    def has_tls(self) -> bool:
        """Whether the endpoints and links can be encrypted."""
        return bool(self.tls_certificate)

    @property
    def needs_tls(self) -> bool:
        """Whether all endpoints and links are encrypted."""
        return self.has_tls and self.tls_mode == "required"

    @property
    def unguarded(self) -> tuple[Address, ...]:
        """The addresses at which other machines can connect without encryption, or without being asked who they are."""
        return () if self.needs_tls and self.authentication else self.exposed

    @property
    def creates_topics(self) -> bool:
        """Whether a topic is created when a client first produces to it."""
        return not self.exposed if self.auto_create_topics is None else self.auto_create_topics

    @property
    def advertised(self) -> Address:
        """The address that the cluster reports to clients."""
        return self.advertise or self.listen

    @property
    def peer_advertised(self) -> Address:
        """The address that the cluster reports to other nodes."""
        return self.peer_advertise or dict(self.peers).get(self.node_id) or self.peer_listen

    @property
    def timing(self) -> timing.Timing:
        """The times by which the nodes of the cluster judge each other."""
        return timing.Timing(self.election_timeout_ms, self.heartbeat_ms)

    @property
    def cluster_digest(self) -> bytes:
        """Sixteen bytes that nodes exchange to check that their clusters have the same name."""
        return hashlib.blake2b(self.cluster_name.encode(), digest_size=16).digest()

    def validate(self, origins: Mapping[str, Origin] | None = None) -> None:
        """Raises InvalidArgumentError for the first value that is out of bounds or does not go with another."""
        for name, setting in SETTINGS.items():
            if not setting.kind.accepts(getattr(self, name)):
                raise InvalidArgumentError(f"{self._said(name, origins)}: expected {setting.kind.allowed}")
        broken = [
            *self._broken_address_rules(),
            *self._broken_time_rules(),
            *self._broken_tls_rules(),
            *self._broken_token_rules(),
        ]
        if broken:
            names, rule = broken[0]
            said = " and ".join(self._said(name, origins) for name in names)
            raise InvalidArgumentError(f"{said}: {rule}")

    def _broken_time_rules(self) -> list[tuple[tuple[str, ...], str]]:
        broken: list[tuple[tuple[str, ...], str]] = []
        if not timing.is_safe(self.election_timeout_ms, self.heartbeat_ms):
            rule = "an election timeout is at least two heartbeats long, and 300ms longer than one"
            broken.append((("election_timeout_ms", "heartbeat_ms"), rule))
        if 0 < self.quiesce_ms < self.heartbeat_ms:
            rule = "a partition stays awake for at least one heartbeat; 0 keeps it awake for ever"
            broken.append((("quiesce_ms", "heartbeat_ms"), rule))
        return broken

    def _broken_token_rules(self) -> list[tuple[tuple[str, ...], str]]:
        given = [name for name in ("token_keys", "token_issuer") if getattr(self, name)]
        if self.token_issuers and given:
            return [(("token_issuers", given[0]), "the file of issuers names the keys of each")]
        return []

    def _broken_tls_rules(self) -> list[tuple[tuple[str, ...], str]]:
        files = ("tls_certificate", "tls_key", "tls_ca")
        given = [name for name in files if getattr(self, name)]
        if given and len(given) < len(files):
            missing = next(name for name in files if name not in given)
            return [((given[0], missing), "a node with TLS needs its certificate, the key of it, and the authorities")]
        if self.tls_client_certificates != "off" and not given:
            rule = "clients have certificates only where tls_certificate is set"
            return [(("tls_client_certificates",), rule)]
        if self.tls_mode == "optional" and not given:
            return [(("tls_mode",), "TLS is optional only where tls_certificate is set")]
        if self.grpc_tls_listen is not None and (self.tls_mode != "optional" or self.grpc_listen is None):
            return [(("grpc_tls_listen",), "it is for nodes with grpc_listen, while tls_mode is optional")]
        return []

    def _broken_address_rules(self) -> list[tuple[tuple[str, ...], str]]:
        broken: list[tuple[tuple[str, ...], str]] = []
        if self.peers and self.join:
            broken.append((("peers", "join"), "a node either forms a new cluster or joins a running one"))
        if self.node_id in self.found_without:
            broken.append((("found_without",), "the cluster is founded without this node; start it with `join`"))
        names = ("listen", "peer_listen", "grpc_listen", "grpc_tls_listen", "http_listen")
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
        open_to_all = [name for name in names if getattr(self, name) in self.unguarded]
        if open_to_all and not self.insecure:
            rule = (
                f"{INSECURE_RULE}; use TLS and authentication, or set insecure = true if the network keeps others out"
            )
            broken.append(((open_to_all[0], "insecure"), rule))
        for name in ("listen", "peer_listen"):
            if getattr(self, name) in self.exposed and not self.needs_tls and not self.join_secret:
                broken.append(((name, "join_secret"), JOIN_RULE))
        return broken

    def _said(self, name: str, origins: Mapping[str, Origin] | None) -> str:
        kind = SETTINGS[name].kind
        value = getattr(self, name)
        shown = _quote(kind.format(value) if kind.accepts(value) else value)
        origin = f" ({origins[name]})" if origins is not None else ""
        return f"{name} = {shown}{origin}"


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    settings: NodeSettings
    #: Where the value of each setting came from.
    origins: Mapping[str, Origin]
    #: Reads the sources again; None: they cannot change.
    reload: Callable[[], "LoadedSettings"] | None = None


#: The table, in the order in which it is shown.
SETTINGS = SettingTable(
    "node", [Setting(name=row.name, default=row.default, **row.metadata) for row in fields(NodeSettings)]
)


def resolve(given: Mapping[str, Given]) -> LoadedSettings:
    """Puts values over the defaults. Every key must be known. Raises InvalidArgumentError for a bad value."""
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for name, setting in SETTINGS.items():
        found = given.get(name)
        if found is None:
            origins[name] = Origin(OriginKind.DEFAULT)
            continue
        origins[name] = found.origin
        try:
            values[name] = setting.kind.read(found.raw)
        except ValueError:
            shown = f"{name} = {_quote(found.raw)} ({found.origin})"
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
