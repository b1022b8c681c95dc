"""The log of a Delta table, followed and extended version by version, without the table's list of files.

`deltalake` has all files of a table in memory and goes through them at every commit. An archive needs how far each
partition has come, which the log says in transactions: they are read once, and then from each new version. How much the
table stores is added up in the same way. A version is a file with a line of JSON for each action; it exists or not,
because it is made by an exclusive create.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from secrets import token_hex
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import DeltaTable, Schema

from flotilla.lake.store import Store
from flotilla.types.errors import AlreadyExistsError

LOG_FOLDER: Final = "_delta_log"
LAST_CHECKPOINT_PATH: Final = f"{LOG_FOLDER}/_last_checkpoint"
#: Of which other writers may have made another table.
_OTHER_TABLE: Final = ("metaData", "protocol")
_ENGINE: Final = "flotilla"


class Content(NamedTuple):
    """How much the files of a version hold."""

    size_bytes: int = 0
    rows: int = 0
    files: int = 0


class DeltaLog:
    def __init__(
        self,
        store: Store,
        version: int,
        transactions: Mapping[str, int],
        content: Content,
        decoded: str = "",
        schema: str = "",
    ) -> None:
        """`transactions` are those of this version, by application id; `decoded` is the type of that column, and
        `schema` the registered schema that it comes from."""
        self._store = store
        self.version = version
        self.transactions = dict(transactions)
        self.content = content
        self.decoded = decoded
        self.schema = schema

    def follow(self) -> bool:
        """Reads newer versions. False: the table must be read anew.

        One of them changes what the table is, or comes from another program, whose actions need not say how much the
        table holds then; or the last known version was removed by those who clean up behind
        checkpoints, so that newer ones may be gone as well, and a version made now would be one that nobody reads.
        """
        while (data := self._store.read(version_path(self.version + 1))) is not None:
            actions = [json.loads(line) for line in data.splitlines() if line.strip()]
            if any(kind in action for action in actions for kind in _OTHER_TABLE) or not _is_own(actions):
                return False
            self._apply(actions)
        return self._store.exists(version_path(self.version))

    def _apply(self, actions: Sequence[Mapping[str, Any]]) -> None:
        self.version += 1
        self.transactions |= {action["txn"]["appId"]: action["txn"]["version"] for action in actions if "txn" in action}
        added = [action["add"] for action in actions if "add" in action]
        removed = [action["remove"] for action in actions if "remove" in action]
        size_bytes, rows, files = self.content
        self.content = Content(
            size_bytes + sum(each["size"] for each in added) - sum(each["size"] for each in removed),
            # Files that replace others have the same rows.
            rows + sum(json.loads(each["stats"])["numRecords"] for each in added if each["dataChange"]),
            files + len(added) - len(removed),
        )


def _is_own(actions: Iterable[Mapping[str, Any]]) -> bool:
    return any(action.get("commitInfo", {}).get("engineInfo") == _ENGINE for action in actions)


class Checkpoint(NamedTuple):
    version: int
    #: In actions: files, transactions and a few others.
    size: int


def last_checkpoint(store: Store) -> Checkpoint | None:
    """None: there is none, or it cannot be read."""
    try:
        found = json.loads(store.read(LAST_CHECKPOINT_PATH) or b"")
        return Checkpoint(int(found["version"]), int(found["size"]))
    except (ValueError, KeyError, TypeError, OSError):
        return None


def version_path(version: int) -> str:
    return f"{LOG_FOLDER}/{version:020}.json"


def checkpoint_path(version: int) -> str:
    return f"{LOG_FOLDER}/{version:020}.checkpoint.parquet"


def put_version(store: Store, version: int, actions: Iterable[Mapping[str, Any]], operation: str) -> bool:
    """Makes a version. False: there is one of this number. Raises OSError."""
    told = {"timestamp": time.time_ns() // 1_000_000, "operation": operation, "operationParameters": {}}
    # The token tells whether a version that exists is this one, when an answer was lost.
    info = {"commitInfo": {**told, "engineInfo": _ENGINE, "txnId": token_hex(8)}}
    data = "".join(f"{json.dumps(action)}\n" for action in (info, *actions)).encode()
    try:
        store.put(version_path(version), data, is_new=True)
    except AlreadyExistsError:
        return store.read(version_path(version)) == data
    return True


def transaction(application: str, version: int) -> dict[str, Any]:
    return {"txn": {"appId": application, "version": version}}


def changed_columns(delta: DeltaTable, columns: pa.Schema, settings: Mapping[str, str]) -> dict[str, Any]:
    """The action that gives a table other columns, and more settings; all else of its description stays."""
    present = delta.metadata()
    return {
        "metaData": {
            "id": str(present.id),
            "name": present.name,
            "description": present.description,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": Schema.from_arrow(columns).to_json(),
            "partitionColumns": present.partition_columns,
            "createdTime": present.created_time,
            "configuration": {**present.configuration, **settings},
        }
    }
