"""The identity of a data directory: its node, its cluster, its number, and how often it was started.

A node that starts on another node's or another cluster's data would vote in its name. So `identity.json` is the first
file in a new directory, and it is checked at every start. It holds the directory's incarnation, a random number: a node
that comes back on a new disk has another one. Once the node has entered a cluster it also holds the cluster's id.

Identity and store belong together. Each start is counted in the store (`journal/starts.json`) and then in the identity,
so a directory whose store was deleted, or replaced by an older one, is noticed: it would forget votes and acknowledged
entries. A whole directory that was put back is noticed by the other nodes, which remember its newest start.

Both files have two copies with a checksum each (`codec/two_copies.py`). Earlier programs read `identity.json` as it is
and count starts in `journal/starts`, a text; they write both without copies. So a node can go back to one of them, and
forth: where the identity has no checksum, an earlier program was the last one, and its count is looked at as well.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from flotilla.codec.two_copies import Folder, find_text, read_copies, text_copies
from flotilla.machine import here
from flotilla.runtime.path_folder import PathFolder, sync_directory
from flotilla.types.errors import CorruptionError, InvalidArgumentError
from flotilla.types.ids import NodeId
from flotilla.types.version import CLUSTER_VERSION_STORED, FIRST, why_unsupported

IDENTITY_FILE = "identity.json"
#: Of that file; one without a version is of the first. The second has the version of the cluster, and is written as
#: soon as that is above the first: so an earlier program refuses the directory.
IDENTITY_VERSION: Final = 2
#: In the store, because it must go where the store goes.
STARTS_FILE = "journal/starts.json"
#: The same number for earlier programs. It has no checksum, and is not believed unless one of them wrote it.
PLAIN_STARTS_FILE = "journal/starts"
#: The files with two copies of a text. The store mends a damaged copy when it is opened.
COPIED_FILES = (IDENTITY_FILE, STARTS_FILE)
#: What `set_aside` moves; everything but the identity.
STORE_PARTS = ("journal", "groups", "format")

_INCARNATION_BITS = 63
_ADVICE = "`flotilla node repair {}` gives the node a new, empty store; then start it with --join"
_LOST = "no node can start without it; `flotilla node repair {}` sets the data aside; then start the node with --join"


@dataclass(frozen=True, slots=True)
class DataDirIdentity:
    node: NodeId
    #: The cluster's name.
    cluster: str
    #: The number of the directory.
    incarnation: int = 0
    #: Drawn when the cluster was founded; empty: the node has not entered one.
    cluster_id: str = ""
    #: How often a node was started on the directory.
    starts: int = 0
    #: If this node founded the cluster: the others that did, with the number of each data directory.
    founders: Mapping[NodeId, int] = field(default_factory=dict)
    #: Where they were reached then. A start before the metadata say it would not find them otherwise.
    founder_addresses: Mapping[NodeId, str] = field(default_factory=dict)
    #: The version of the cluster, as far as the node has learned it.
    cluster_version: int = FIRST
    #: False: an earlier program wrote it, without a checksum.
    is_verified: bool = field(default=True, compare=False)


class DataDir:
    """A claimed directory. Every change of its identity is durable when the method returns."""

    def __init__(self, folder: Folder, identity: DataDirIdentity) -> None:
        self._folder = folder
        self.identity = identity

    @classmethod
    def claim(cls, folder: Folder, node: NodeId, cluster: str) -> "DataDir":
        """Writes the identity into a new directory, checks it in an old one. The store is not touched.

        Raises InvalidArgumentError when the data belongs to another node or cluster, CorruptionError when the identity
        is lost, or identity and store do not belong together.
        """
        if not folder.has(IDENTITY_FILE) and not folder.has("format"):
            if folder.has("journal"):
                raise InvalidArgumentError(
                    f"{folder} holds data without an identity; it is not a node's data directory"
                )
            created = cls(folder, DataDirIdentity(node, cluster))
            created.renew()
            return created
        found = cls(folder, read_identity(folder))
        identity = found.identity
        if identity.cluster != cluster:
            raise InvalidArgumentError(f"{folder} belongs to cluster {identity.cluster!r}, not {cluster!r}")
        if identity.node != node:
            raise InvalidArgumentError(f"{folder} belongs to node {identity.node}, not {node}")
        problem = store_problem(folder, identity)
        if problem:
            raise CorruptionError(f"{problem}: votes and acknowledged entries may be lost; {_ADVICE.format(folder)}")
        return found

    def count_start(self) -> int:
        """The number of this start. Call it with the store open, before the node takes part in anything."""
        starts = max(self.identity.starts, read_starts(self._folder, self.identity) or 0) + 1
        # First the store: a crash in between leaves a store that is ahead, which is harmless.
        self._count(starts)
        self._put(replace(self.identity, starts=starts, is_verified=True))
        return starts

    def _count(self, starts: int) -> None:
        self._folder.write(STARTS_FILE, *text_copies(json.dumps({"starts": starts}).encode()))
        self._folder.write(PLAIN_STARTS_FILE, b"%d\n" % starts)

    def founded(self, founders: Mapping[NodeId, int], addresses: Mapping[NodeId, str]) -> None:
        self._put(replace(self.identity, founders=dict(founders), founder_addresses=dict(addresses)))

    def entered(self, cluster_id: str, cluster_version: int) -> None:
        """The version never goes down: metadata that are read again begin with earlier ones.

        Raises CorruptionError when the directory belongs to another cluster of the same name.
        """
        known = self.identity
        cluster_version = max(cluster_version, known.cluster_version)
        if known.cluster_id not in ("", cluster_id):
            raise CorruptionError(
                f"{self._folder} belongs to cluster {known.cluster_id}, but its store to cluster {cluster_id}"
            )
        if (known.cluster_id, known.cluster_version) != (cluster_id, cluster_version):
            self._put(replace(known, cluster_id=cluster_id, cluster_version=cluster_version))

    def recovered(self, cluster_id: str) -> None:
        """The directory is all that is left of its cluster. It becomes another one, which no old member belongs to."""
        self._put(replace(self.identity, cluster_id=cluster_id, founders={}, founder_addresses={}))

    def renew(self) -> None:
        """A new number, for an empty store: the node has to be admitted by its cluster again."""
        # 0 stands for an unknown incarnation.
        incarnation = here().chance().getrandbits(_INCARNATION_BITS) | 1
        self._put(replace(self.identity, incarnation=incarnation, starts=0, founders={}, founder_addresses={}))

    def expect_store(self) -> None:
        """From now on the directory counts as damaged without a store of its last start."""
        self._put(replace(self.identity, starts=max(1, self.identity.starts)))

    def _put(self, identity: DataDirIdentity) -> None:
        counted = None if identity.is_verified else read_starts(self._folder, identity)
        if counted is not None:
            # From now on nobody looks at the count of an earlier program.
            self._count(counted)
        stores_version = identity.cluster_version >= CLUSTER_VERSION_STORED
        fields = {
            "version": IDENTITY_VERSION if stores_version else 1,
            "node": identity.node,
            "cluster": identity.cluster,
            "incarnation": identity.incarnation,
            "cluster_id": identity.cluster_id,
            "starts": identity.starts,
            "founders": {str(node): number for node, number in sorted(identity.founders.items())},
            "founder_addresses": {str(node): at for node, at in sorted(identity.founder_addresses.items())},
            **({"cluster_version": identity.cluster_version} if stores_version else {}),
        }
        self._folder.write(IDENTITY_FILE, *text_copies(json.dumps(fields).encode()))
        self.identity = replace(identity, is_verified=True)


def set_aside(path: Path) -> Path:
    """Moves a store into a folder of its own and renews the identity. Nothing is deleted. Returns the folder.

    An identity that is lost goes with the store: a node is started on the directory like on a new one.
    """
    folder = PathFolder(path)
    try:
        data = DataDir(folder, read_identity(folder))
    except CorruptionError:
        data = None
    number = 1
    while folder.has(f"set-aside-{number}"):
        number += 1
    aside = path / f"set-aside-{number}"
    # First the identity: after a crash in between, the node counts as one without its store.
    if data is not None:
        data.expect_store()
    aside.mkdir(mode=0o700)
    for part in STORE_PARTS if data is not None else (*STORE_PARTS, IDENTITY_FILE):
        if folder.has(part):
            (path / part).rename(aside / part)
    sync_directory(path)
    if data is not None:
        data.renew()
    return aside


def read_identity(folder: Folder) -> DataDirIdentity:
    """Raises CorruptionError when the identity is lost, and InvalidArgumentError when the folder is no data directory,
    or of a version that this program cannot use.
    """
    content = folder.read(IDENTITY_FILE)
    if content is None:
        if folder.has("format"):
            raise CorruptionError(f"{folder} has a store, but no {IDENTITY_FILE}: {_LOST.format(folder)}")
        raise InvalidArgumentError(f"{folder} has no {IDENTITY_FILE}; it is not a node's data directory")
    intact = find_text(content).content
    try:
        fields = json.loads(content if intact is None else intact)
        version = int(fields.get("version", 1))
        _check_version(folder, version)
        if intact is None and "crc32c" in fields:
            raise ValueError("both copies are damaged")
        identity = _identity(fields, version, is_verified=intact is not None)
    except InvalidArgumentError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(f"{folder}/{IDENTITY_FILE} is damaged: {_LOST.format(folder)}") from error
    unsupported = why_unsupported(identity.cluster_version)
    if unsupported:
        raise InvalidArgumentError(f"{folder} belongs to a cluster that this program cannot be part of: {unsupported}")
    return identity


def _check_version(folder: Folder, version: int) -> None:
    if version > IDENTITY_VERSION:
        raise InvalidArgumentError(
            f"{folder}/{IDENTITY_FILE} is of version {version}, and this version of flotilla reads up to "
            f"{IDENTITY_VERSION}: start it with the version that wrote it"
        )


def _identity(fields: Mapping[str, Any], version: int, *, is_verified: bool) -> DataDirIdentity:
    """Raises ValueError, KeyError, TypeError or AttributeError."""
    return DataDirIdentity(
        node=int(fields["node"]),
        cluster=str(fields["cluster"]),
        incarnation=int(fields["incarnation"]),
        cluster_id=str(fields["cluster_id"]),
        starts=int(fields["starts"]),
        founders={int(node): int(number) for node, number in fields["founders"].items()},
        founder_addresses={int(node): str(at) for node, at in fields.get("founder_addresses", {}).items()},
        cluster_version=int(fields["cluster_version"]) if version > 1 else FIRST,
        is_verified=is_verified,
    )


def read_starts(folder: Folder, identity: DataDirIdentity) -> int | None:
    """The starts that the store has counted; None: it has no readable count."""
    copies = read_copies(folder, STARTS_FILE, find_text)
    try:
        counted = -1 if copies is None else int(json.loads(copies.content or b"")["starts"])
        if copies is None or not identity.is_verified:
            counted = max(counted, int(folder.read(PLAIN_STARTS_FILE) or b""))
    except (ValueError, KeyError, TypeError):
        return None
    return counted


def store_problem(folder: Folder, identity: DataDirIdentity) -> str:
    """Why the store is not the one that the identity belongs to; empty: it is."""
    if not identity.starts:
        return ""
    counted = read_starts(folder, identity)
    if counted is None:
        if folder.has(STARTS_FILE):
            return f"the count of starts in {folder}/{STARTS_FILE} is damaged"
        return f"{folder} has an identity, but not the store that belongs to it"
    if counted < identity.starts:
        return f"the store in {folder} is of start {counted}, and its identity of start {identity.starts}"
    return ""
