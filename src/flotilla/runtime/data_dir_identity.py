"""The identity of a data directory: its node, its cluster, its number, and how often it was started.

A node that starts on another node's or another cluster's data would vote in its name. So `identity.json` is the first
file in a new directory, and it is checked at every start. It holds the directory's incarnation, a random number: a node
that comes back on a new disk has another one. Once the node has entered a cluster it also holds the cluster's id.

Identity and store belong together. Each start is counted in the store (`journal/starts`) and then in the identity, so a
directory whose store was deleted, or replaced by an older one, is noticed: it would forget votes and acknowledged
entries. A whole directory that was put back is noticed by the other nodes, which remember its newest start.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import randbits

from flotilla.types.errors import CorruptionError, InvalidArgumentError
from flotilla.types.ids import NodeId

IDENTITY_FILE = "identity.json"
#: In the store, because it must go where the store goes.
STARTS_FILE = "journal/starts"
#: What `set_aside` moves; everything but the identity.
STORE_PARTS = ("journal", "groups", "format")

_INCARNATION_BITS = 63
_ADVICE = "`flotilla node repair {}` gives the node a new, empty store; then start it with --join"


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


class DataDir:
    """A claimed directory. Every change of its identity is durable when the method returns."""

    def __init__(self, path: Path, identity: DataDirIdentity) -> None:
        self.path = path
        self.identity = identity

    @classmethod
    def claim(cls, path: Path, node: NodeId, cluster: str) -> "DataDir":
        """Writes the identity into a new directory, checks it in an old one. The store is not touched.

        Raises InvalidArgumentError when the data belongs to another node or cluster, CorruptionError when identity and
        store do not belong together.
        """
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (path / IDENTITY_FILE).exists():
            if (path / "journal").exists():
                raise InvalidArgumentError(f"{path} holds data without an identity; it is not a node's data directory")
            created = cls(path, DataDirIdentity(node, cluster))
            created.renew()
            return created
        found = cls(path, read_identity(path))
        identity = found.identity
        if identity.cluster != cluster:
            raise InvalidArgumentError(f"{path} belongs to cluster {identity.cluster!r}, not {cluster!r}")
        if identity.node != node:
            raise InvalidArgumentError(f"{path} belongs to node {identity.node}, not {node}")
        problem = store_problem(path, identity)
        if problem:
            raise CorruptionError(f"{problem}: votes and acknowledged entries may be lost; {_ADVICE.format(path)}")
        return found

    def count_start(self) -> int:
        """The number of this start. Call it with the store open, before the node takes part in anything."""
        starts = max(self.identity.starts, read_starts(self.path) or 0) + 1
        # First the store: a crash in between leaves a store that is ahead, which is harmless.
        _write_file(self.path / STARTS_FILE, f"{starts}\n")
        self._put(replace(self.identity, starts=starts))
        return starts

    def founded(self, founders: Mapping[NodeId, int]) -> None:
        self._put(replace(self.identity, founders=dict(founders)))

    def entered(self, cluster_id: str) -> None:
        """Raises CorruptionError when the directory belongs to another cluster of the same name."""
        known = self.identity.cluster_id
        if known and known != cluster_id:
            raise CorruptionError(f"{self.path} belongs to cluster {known}, but its store to cluster {cluster_id}")
        if not known:
            self._put(replace(self.identity, cluster_id=cluster_id))

    def renew(self) -> None:
        """A new number, for an empty store: the node has to be admitted by its cluster again."""
        # 0 stands for an unknown incarnation.
        incarnation = randbits(_INCARNATION_BITS) | 1
        self._put(replace(self.identity, incarnation=incarnation, starts=0, founders={}))

    def set_aside(self) -> Path:
        """Moves the store into a folder of its own and renews the identity. Nothing is deleted. Returns the folder."""
        number = 1
        while (self.path / f"set-aside-{number}").exists():
            number += 1
        folder = self.path / f"set-aside-{number}"
        # First the identity: after a crash in between, the node counts as one without its store.
        self._put(replace(self.identity, starts=max(1, self.identity.starts)))
        folder.mkdir(mode=0o700)
        for part in STORE_PARTS:
            if (self.path / part).exists():
                (self.path / part).rename(folder / part)
        _sync_directory(self.path)
        self.renew()
        return folder

    def _put(self, identity: DataDirIdentity) -> None:
        fields = {
            "node": identity.node,
            "cluster": identity.cluster,
            "incarnation": identity.incarnation,
            "cluster_id": identity.cluster_id,
            "starts": identity.starts,
            "founders": {str(node): number for node, number in sorted(identity.founders.items())},
        }
        _write_file(self.path / IDENTITY_FILE, json.dumps(fields))
        self.identity = identity


def read_identity(path: Path) -> DataDirIdentity:
    """Raises InvalidArgumentError when the file is absent or damaged."""
    file = path / IDENTITY_FILE
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
        return DataDirIdentity(
            node=int(fields["node"]),
            cluster=str(fields["cluster"]),
            incarnation=int(fields["incarnation"]),
            cluster_id=str(fields["cluster_id"]),
            starts=int(fields["starts"]),
            founders={int(node): int(number) for node, number in fields["founders"].items()},
        )
    except FileNotFoundError:
        raise InvalidArgumentError(f"{path} has no {IDENTITY_FILE}; it is not a node's data directory") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(f"{file} is damaged: {error}") from error


def read_starts(path: Path) -> int | None:
    """The starts that the store has counted; None: it has no readable count."""
    try:
        return int((path / STARTS_FILE).read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return None


def store_problem(path: Path, identity: DataDirIdentity) -> str:
    """Why the store is not the one that the identity belongs to; empty: it is."""
    if not identity.starts:
        return ""
    counted = read_starts(path)
    if counted is None:
        return f"{path} has an identity, but not the store that belongs to it"
    if counted < identity.starts:
        return f"the store in {path} is of start {counted}, and its identity of start {identity.starts}"
    return ""


def _write_file(path: Path, text: str) -> None:
    """Atomic: writes a new file, syncs it, renames it, syncs the directory."""
    beside = path.with_suffix(".new")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
