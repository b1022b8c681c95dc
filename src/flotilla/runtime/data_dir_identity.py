"""The identity of a data directory: its node and its cluster, written once and checked at every start.

A node that starts on another node's or another cluster's data would vote in its name. So the identity is the first
file in a new directory, and a directory with data but without identity is refused. The file also holds the directory's
incarnation, a random number: a node that comes back on a new disk has another one.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import randbits
from typing import NamedTuple

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import NodeId

_FILE = "identity.json"
_INCARNATION_BITS = 63


@dataclass(frozen=True, slots=True)
class DataDirIdentity:
    node: NodeId
    cluster: str


class ClaimedDataDir(NamedTuple):
    is_new: bool
    incarnation: int


def claim_data_dir(directory: Path, identity: DataDirIdentity) -> ClaimedDataDir:
    """Writes the identity into a new directory, checks it in an old one.

    Raises InvalidArgumentError when the data belongs to another node or cluster.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / _FILE
    is_new = not path.exists()
    if is_new and (directory / "journal").exists():
        raise InvalidArgumentError(f"{directory} holds data without an identity; it is not a node's data directory")
    incarnation = 0 if is_new else _check(path, identity)
    if not incarnation:
        # 0 stands for an unknown incarnation.
        incarnation = randbits(_INCARNATION_BITS) | 1
        _write(path, identity, incarnation)
    return ClaimedDataDir(is_new, incarnation)


def _check(path: Path, identity: DataDirIdentity) -> int:
    """The directory's incarnation; 0 if it has none yet."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        found = DataDirIdentity(int(fields["node"]), str(fields["cluster"]))
        incarnation = int(fields.get("incarnation", 0))
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidArgumentError(f"{path} is damaged: {error}") from error
    if found.cluster != identity.cluster:
        raise InvalidArgumentError(f"{path.parent} belongs to cluster {found.cluster!r}, not {identity.cluster!r}")
    if found.node != identity.node:
        raise InvalidArgumentError(f"{path.parent} belongs to node {found.node}, not {identity.node}")
    return incarnation


def _write(path: Path, identity: DataDirIdentity, incarnation: int) -> None:
    """Atomic: writes a new file, syncs it, renames it, syncs the directory."""
    beside = path.with_suffix(".new")
    with beside.open("w", encoding="utf-8") as file:
        json.dump({**asdict(identity), "incarnation": incarnation}, file)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
