"""The data of a snapshot: whole, or in the pieces in which it was received.

Joining tens of megabytes takes tens of milliseconds, in which the interpreter does nothing else: a large state is
decoded from the pieces.
"""

from typing import TypeAlias

#: No piece is empty.
SnapshotData: TypeAlias = bytes | tuple[bytes, ...]


def whole(data: SnapshotData) -> bytes:
    """For machines whose state is small."""
    return data if isinstance(data, bytes) else b"".join(data)


def pieces(data: SnapshotData) -> tuple[bytes, ...]:
    if isinstance(data, bytes):
        return (data,) if data else ()
    return data
