"""The manifest of a lake: one value that lists every file.

Pure. A file that no manifest lists does not exist for readers. A manifest changes only by becoming the next version,
and every file in it was read back from the lake before. Its invariants:

1. for each partition the offsets of all files together are one dense range, no offset twice;
2. that range grows only at its end: the next batch begins where the last one ended;
3. a (query, batch) is in it once: repeating it changes nothing;
4. compaction changes files, never offsets.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

from flotilla.types.errors import CorruptionError, InvalidArgumentError

FORMAT: Final = 1
_DIGEST_BYTES: Final = 16

#: Topic and number.
Partition: TypeAlias = tuple[str, int]


class Run(NamedTuple):
    """Offsets [first, end) of one partition."""

    partition: int
    first: int
    end: int


class Span(NamedTuple):
    """The offsets [first, end) of a partition that the lake has."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file: rows of one topic and day, sorted by partition and offset."""

    #: Below the lake.
    path: str
    topic: str
    #: Sorted, and as long as possible.
    runs: tuple[Run, ...]
    size_bytes: int
    #: BLAKE2b of the written bytes.
    checksum: str
    #: Of the records' timestamps.
    time_ms_min: int
    time_ms_max: int

    @property
    def rows(self) -> int:
        return sum(run.end - run.first for run in self.runs)

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    def row(self) -> list[Any]:
        """The fields in order, for JSON."""
        return [getattr(self, each.name) for each in fields(self)]

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "DataFile":
        path, topic, runs, *rest = row
        return cls(path, topic, tuple(Run(*run) for run in runs), *rest)


@dataclass(frozen=True, slots=True)
class Retired:
    """A replaced file, and since when; readers of older manifests may still use it."""

    path: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Manifest:
    version: int = 0
    files: tuple[DataFile, ...] = ()
    #: For each query its last batch in the lake.
    batches: Mapping[str, int] = field(default_factory=dict)
    retired: tuple[Retired, ...] = ()

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def topics(self) -> list[str]:
        return sorted({file.topic for file in self.files})

    def files_of(self, topic: str) -> list[DataFile]:
        return [file for file in self.files if file.topic == topic]

    def has_batch(self, query_id: str, batch_id: int) -> bool:
        return batch_id <= self.batches.get(query_id, -1)

    def spans(self) -> dict[Partition, Span]:
        """The offsets of each partition in the lake. Raises CorruptionError when they are not one dense range."""
        found = {}
        for topic in self.topics:
            for number, runs in _by_partition(self.files_of(topic)).items():
                joined = join_runs(runs)
                if len(joined) != 1:
                    raise CorruptionError(f"the manifest has {_shown(topic, joined)}: not one range")
                found[topic, number] = Span(joined[0].first, joined[0].end)
        return found

    def with_batch(self, query_id: str, batch_id: int, files: Sequence[DataFile]) -> "Manifest":
        """The next version, with the files of one batch. Raises InvalidArgumentError when they do not fit.

        The caller has checked `has_batch`, and has read the files back.
        """
        assert not self.has_batch(query_id, batch_id), "a batch is in the lake once"
        spans = self.spans()
        for topic in sorted({file.topic for file in files}):
            for number, runs in _by_partition([file for file in files if file.topic == topic]).items():
                _check_fits(topic, join_runs(runs), spans.get((topic, number)))
        batches = {**self.batches, query_id: batch_id}
        return replace(self, version=self.version + 1, files=(*self.files, *files), batches=batches)

    def compacted(self, old: Iterable[DataFile], new: Sequence[DataFile], now_ms: int) -> "Manifest":
        """The next version, with `new` in place of `old`. Raises InvalidArgumentError unless the rows are the same.

        Old files stay in the lake for the grace period.
        """
        gone = {file.path: file for file in old}
        kept = tuple(file for file in self.files if file.path not in gone)
        if len(kept) + len(gone) != len(self.files):
            raise InvalidArgumentError("files were compacted that the manifest does not have")
        if _content(gone.values()) != _content(new):
            raise InvalidArgumentError("compacted files do not have the rows of those they are made of")
        retired = (*self.retired, *(Retired(path, now_ms) for path in gone))
        return replace(self, version=self.version + 1, files=(*kept, *new), retired=retired)

    def expired(self, grace_ms: int, now_ms: int) -> list[str]:
        """Retired files whose grace period is over."""
        return [each.path for each in self.retired if now_ms - each.since_ms >= grace_ms]

    def forgetting(self, paths: Iterable[str]) -> "Manifest":
        """The next version, without these retired files."""
        gone = set(paths)
        retired = tuple(each for each in self.retired if each.path not in gone)
        return replace(self, version=self.version + 1, retired=retired)


def join_runs(runs: Iterable[Run]) -> list[Run]:
    """The same offsets in as few runs as possible. Raises CorruptionError when an offset occurs twice."""
    joined: list[Run] = []
    for run in sorted(runs):
        last = joined[-1] if joined else None
        if last is None or last.partition != run.partition or last.end < run.first:
            joined.append(run)
        elif last.end > run.first:
            raise CorruptionError(f"partition {run.partition} has offset {run.first} twice")
        else:
            joined[-1] = last._replace(end=run.end)
    return joined


def _by_partition(files: Iterable[DataFile]) -> dict[int, list[Run]]:
    found: dict[int, list[Run]] = {}
    for file in files:
        for run in file.runs:
            found.setdefault(run.partition, []).append(run)
    return dict(sorted(found.items()))


def _content(files: Iterable[DataFile]) -> list[tuple[str, list[Run]]]:
    """The runs of each topic in these files."""
    kept = list(files)
    topics = sorted({file.topic for file in kept})
    return [(topic, join_runs(run for file in kept if file.topic == topic for run in file.runs)) for topic in topics]


def _check_fits(topic: str, joined: Sequence[Run], known: Span | None) -> None:
    if len(joined) != 1:
        raise InvalidArgumentError(f"a batch has {_shown(topic, joined)}: offsets between them are missing")
    if known is not None and joined[0].first != known.end:
        raise InvalidArgumentError(
            f"a batch begins at offset {joined[0].first} of {topic}/{joined[0].partition}, but the lake ends at "
            f"{known.end}: the checkpoint and the lake do not belong together"
        )


def _shown(topic: str, runs: Iterable[Run]) -> str:
    return ", ".join(f"{topic}/{run.partition} [{run.first}, {run.end})" for run in runs)


# The stored form.


def encode(manifest: Manifest) -> bytes:
    """JSON with a digest of its content, which detects truncation and changes."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": manifest.version,
        "batches": dict(sorted(manifest.batches.items())),
        "files": [file.row() for file in manifest.files],
        "retired": [[each.path, each.since_ms] for each in manifest.retired],
    }
    text = json.dumps(content, separators=(",", ":"))
    return json.dumps({"digest": _digest(text), "manifest": text}).encode()


def decode(data: bytes) -> Manifest:
    """Raises CorruptionError."""
    try:
        outer = json.loads(data)
        text = outer["manifest"]
        if outer["digest"] != _digest(text):
            raise CorruptionError("a manifest does not match its digest")
        content = json.loads(text)
        if content["format"] != FORMAT:
            raise InvalidArgumentError(f"this version reads manifests of format {FORMAT}, not {content['format']}")
        return Manifest(
            version=content["version"],
            files=tuple(map(DataFile.from_row, content["files"])),
            batches=content["batches"],
            retired=tuple(Retired(*each) for each in content["retired"]),
        )
    except InvalidArgumentError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError(f"a manifest is damaged: {error}") from error


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()
