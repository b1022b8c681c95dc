"""Rows of backups, as in `messages`."""

from flotilla.codec.client.rows import Row, derived
from flotilla.types.operations.backup import (
    HoldSettlements,
    LogRead,
    ReadLog,
    ReadSnapshot,
    SettlementsHeld,
    SnapshotRead,
)

REQUEST_ROWS: tuple[Row, ...] = (derived(ReadLog), derived(ReadSnapshot), derived(HoldSettlements))
REPLY_ROWS: tuple[Row, ...] = (derived(LogRead), derived(SnapshotRead), derived(SettlementsHeld))
