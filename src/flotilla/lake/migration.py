"""`flotilla pipeline migrate-lake`: takes over a lake of the format before Delta, with its files as they are.

That format had a folder `topic=<topic>` for each topic and a manifest for all, `_manifest/<version>.json`. A folder is
renamed to the topic's name (on an object store its files are copied), and one commit adds the files of the newest
manifest. Each step is done once: a run that was killed is run again. No archive may run meanwhile.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Final

from flotilla.lake.data_file import DataFile, description_path, verify
from flotilla.lake.lake import OLD_FOLDER, OLD_SUFFIX
from flotilla.lake.store import Store
from flotilla.lake.table import TopicTable
from flotilla.types.errors import CorruptionError, NotFoundError

_FORMAT: Final = 1
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Migrated:
    topics: int
    files: int
    rows: int


def migrate_lake(address: str, progress: Callable[[str], None] = lambda _: None) -> Migrated:
    """Raises NotFoundError when there is no old lake, CorruptionError when it is damaged."""
    store = Store(address)
    by_topic = _newest(store)
    for topic, files in by_topic.items():
        table = TopicTable(store.address_of(topic), topic)
        if not table.snapshot().files:
            _take_over(store, table, files)
        progress(f"{topic}: {len(files):,} files are taken over")
    for topic in by_topic:
        store.remove(store.paths(_old_folder(topic), suffix=""))
    # Without manifests it is a lake like any other; the newest one is the last to go.
    store.remove(store.paths(OLD_FOLDER, suffix=""))
    store.remove_folder(OLD_FOLDER)
    every = [file for files in by_topic.values() for file in files]
    return Migrated(len(by_topic), len(every), sum(file.rows for file in every))


def _take_over(store: Store, table: TopicTable, files: Sequence[DataFile]) -> None:
    if not store.is_local or not store.exists(table.topic):
        store.move_folder(_old_folder(table.topic), table.topic)
    for file in files:
        verify(table, file)
        table.put(description_path(file.path), file.text().encode())
    now_ms = time.time_ns() // 1_000_000
    table.add([replace(file, written_ms=now_ms) for file in files])


def _old_folder(topic: str) -> str:
    return f"topic={topic}"


def _newest(store: Store) -> Mapping[str, list[DataFile]]:
    """The files of the newest manifest, by topic, with paths below the topic."""
    paths = sorted(store.paths(OLD_FOLDER, suffix=OLD_SUFFIX))
    if not paths:
        raise NotFoundError(f"there is no lake of the old format at {store.address}")
    found: dict[str, list[DataFile]] = {}
    for row in _content(store.read(paths[-1]) or b"")["files"]:
        path, topic, runs, *rest = row
        # It did not have the time of writing.
        file = DataFile.from_text(json.dumps([path.removeprefix(f"{_old_folder(topic)}/"), topic, runs, *rest, 0]))
        found.setdefault(topic, []).append(file)
    return found


def _content(data: bytes) -> Any:
    """Raises CorruptionError."""
    try:
        outer = json.loads(data)
        text = outer["manifest"]
        if outer["digest"] != blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest():
            raise CorruptionError("the newest manifest does not match its digest")
        content = json.loads(text)
        if content["format"] != _FORMAT:
            raise CorruptionError(f"the newest manifest has format {content['format']}, not {_FORMAT}")
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError(f"the newest manifest is damaged: {error}") from error
    return content
