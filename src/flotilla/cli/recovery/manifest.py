"""The manifest of a backup: what it holds, by name, size and checksum. It is written last.

    backup-000001.json                 one for each backup in a place, with rising numbers
    groups/<group>/<first>-<last>.log  committed entries of a log, in the format of `codec/log_copy.py`
    groups/<group>/<index>-<part>.snap bytes of the snapshot of that index

Files are shared by all backups of a place that need them. A log is restored from its snapshot and the entries after it;
without a snapshot it begins at entry 1. Entries before the snapshot are there because they are the messages.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, Final

from flotilla.cli.recovery.places import Place
from flotilla.types.errors import CorruptionError, InvalidArgumentError, NotFoundError
from flotilla.types.ids import Index, Term

BACKUP_FORMAT: Final = "flotilla backup"
BACKUP_VERSION: Final = 1

_PREFIX: Final = "backup-"
_SUFFIX: Final = ".json"


@dataclass(frozen=True, slots=True)
class KeptFile:
    path: str
    size_bytes: int
    sha256: str

    @classmethod
    def of(cls, path: str, data: bytes) -> "KeptFile":
        return cls(path, len(data), sha256(data).hexdigest())

    def read(self, place: Place) -> bytes:
        """Raises CorruptionError unless the file is as it was written."""
        data = place.read(self.path)
        if data is None:
            raise CorruptionError(f"{self.path} is missing in {place.address}")
        if self != KeptFile.of(self.path, data):
            raise CorruptionError(f"{self.path} in {place.address} is damaged")
        return data


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Entries from `first` to `last`."""

    first: Index
    last: Index
    file: KeptFile


@dataclass(frozen=True, slots=True)
class KeptSnapshot:
    index: Index
    term: Term
    parts: tuple[KeptFile, ...]


@dataclass(slots=True)
class KeptLog:
    """One Raft group: that of a partition, or of the metadata, which have no topic."""

    topic: str
    partition: int
    group: int
    #: The log begins after this entry.
    base_index: Index
    base_term: Term
    #: The point of the backup.
    last_index: Index
    last_term: Term
    snapshot: KeptSnapshot | None
    #: In order and without gaps. The first may begin before the log does.
    pieces: list[LogPiece] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.partition}" if self.topic else "metadata"

    def files(self) -> Iterator[KeptFile]:
        yield from () if self.snapshot is None else self.snapshot.parts
        yield from (piece.file for piece in self.pieces)


@dataclass(slots=True)
class Manifest:
    number: int
    created_ms: int
    #: Of the version that wrote it, for people.
    flotilla: str
    cluster_id: str
    cluster_name: str
    #: The metadata first.
    logs: list[KeptLog]

    @property
    def path(self) -> str:
        return manifest_path(self.number)

    def files(self) -> Iterator[KeptFile]:
        for log in self.logs:
            yield from log.files()


def manifest_path(number: int) -> str:
    return f"{_PREFIX}{number:06d}{_SUFFIX}"


def encode_manifest(manifest: Manifest) -> bytes:
    content = json.dumps(asdict(manifest), separators=(",", ":"))
    digest = sha256(content.encode()).hexdigest()
    head = json.dumps({"format": BACKUP_FORMAT, "version": BACKUP_VERSION, "sha256": digest})
    # The checksum is of the bytes of the second line.
    return f"{head}\n{content}\n".encode()


def decode_manifest(path: str, data: bytes) -> Manifest:
    """Raises CorruptionError for damaged bytes, InvalidArgumentError for a manifest of a later version."""
    head, _, rest = data.partition(b"\n")
    content = rest.rstrip(b"\n")
    try:
        found: dict[str, Any] = json.loads(head)
        name, version, digest = found["format"], int(found["version"]), found["sha256"]
    except (ValueError, KeyError, TypeError):
        raise CorruptionError(f"{path} is no manifest of a backup") from None
    if name != BACKUP_FORMAT:
        raise CorruptionError(f"{path} is no manifest of a backup")
    if version > BACKUP_VERSION:
        raise InvalidArgumentError(
            f"{path} is of backup version {version}; this version of flotilla reads up to {BACKUP_VERSION}"
        )
    if sha256(content).hexdigest() != digest:
        raise CorruptionError(f"{path} is damaged")
    fields: dict[str, Any] = json.loads(content)
    return Manifest(**{**fields, "logs": [_log(log) for log in fields["logs"]]})


def _log(fields: dict[str, Any]) -> KeptLog:
    snapshot = fields["snapshot"]
    if snapshot is not None:
        snapshot = KeptSnapshot(
            snapshot["index"], snapshot["term"], tuple(KeptFile(**part) for part in snapshot["parts"])
        )
    pieces = [LogPiece(piece["first"], piece["last"], KeptFile(**piece["file"])) for piece in fields["pieces"]]
    return KeptLog(**{**fields, "snapshot": snapshot, "pieces": pieces})


def backup_numbers(place: Place) -> list[int]:
    """The backups of a place, the oldest first."""
    names = [path.removeprefix(_PREFIX).removesuffix(_SUFFIX) for path in place.paths(suffix=_SUFFIX)]
    return sorted(int(name) for name in names if name.isdigit())


def read_manifest(place: Place, number: int = 0) -> Manifest:
    """The backup of this number; 0: the newest. Raises NotFoundError, CorruptionError, InvalidArgumentError."""
    numbers = backup_numbers(place)
    if not numbers:
        raise NotFoundError(f"there is no backup in {place.address}")
    chosen = number or numbers[-1]
    data = place.read(manifest_path(chosen))
    if data is None:
        raise NotFoundError(f"there is no backup {chosen} in {place.address}, only {', '.join(map(str, numbers))}")
    return decode_manifest(manifest_path(chosen), data)
