"""Whose data a directory holds: the node and the cluster it belongs to, written once and checked at every start.

A node that starts on another node's or another cluster's data would vote in its name. So the identity is the first
thing that is written into a new directory, and a directory with data but without identity is refused.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import NodeId

_FILE = "identity.json"


@dataclass(frozen=True, slots=True)
class Identity:
    node: NodeId
    cluster: str


def claim(directory: Path, identity: Identity) -> bool:
    """Writes the identity into a new directory, checks it in an old one. True: the directory is new.

    Raises InvalidArgumentError when the data belongs to somebody else.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / _FILE
    if path.exists():
        _check(path, identity)
        return False
    if (directory / "journal").exists():
        raise InvalidArgumentError(f"{directory} holds data without an identity; it is not a node's data directory")
    _write(path, identity)
    return True


def _check(path: Path, identity: Identity) -> None:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        found = Identity(int(fields["node"]), str(fields["cluster"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidArgumentError(f"{path} is damaged: {error}") from error
    if found.cluster != identity.cluster:
        raise InvalidArgumentError(f"{path.parent} belongs to cluster {found.cluster!r}, not {identity.cluster!r}")
    if found.node != identity.node:
        raise InvalidArgumentError(f"{path.parent} belongs to node {found.node}, not {identity.node}")


def _write(path: Path, identity: Identity) -> None:
    """Whole or not at all: written beside, synced, renamed, directory synced."""
    beside = path.with_suffix(".new")
    with beside.open("w", encoding="utf-8") as file:
        json.dump(asdict(identity), file)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
