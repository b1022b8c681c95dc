"""The state machine that the simulator replicates: an append-only list of client commands.

Applying a command appends its id and answers with its position; a read answers with the length of
the list and a running digest of all of it. So every acknowledgement is a claim about one place in
one list, which is what the history checker needs. The digest depends on order: two ledgers with
the same length and digest hold the same commands.

A command is eight bytes of id and then padding that means nothing.
"""

from array import array
from collections.abc import Callable, Iterable
from struct import Struct

from flotilla.raft.messages import Entry
from flotilla.types.snapshot_data import SnapshotData, whole

_ID = Struct("<Q")
_HEAD = Struct("<QQ")
_MASK = (1 << 64) - 1
_FACTOR = 0x9E37_79B9_7F4A_7C15


def command(identity: int, padding_bytes: int = 0) -> bytes:
    return _ID.pack(identity) + bytes(padding_bytes)


def fold(digest: int, identity: int) -> int:
    """The digest of a list after one more command."""
    return ((digest ^ identity) * _FACTOR + 1) & _MASK


class Ledger:
    """See the module; implements `StateMachine`."""

    __slots__ = ("commands", "digest")

    def __init__(self) -> None:
        self.commands = array("Q")
        self.digest = 0

    def apply(self, entry: Entry) -> object:
        (identity,) = _ID.unpack_from(entry.data)
        self.commands.append(identity)
        self.digest = fold(self.digest, identity)
        return len(self.commands) - 1

    def read(self, query: object) -> object:
        return len(self.commands), self.digest

    def snapshot(self) -> bytes:
        return _HEAD.pack(len(self.commands), self.digest) + self.commands.tobytes()

    def freeze(self) -> Callable[[], Iterable[bytes]]:
        data = self.snapshot()
        return lambda: (data,)

    def decode(self, data: SnapshotData) -> object:
        """Nothing: it is restored from the bytes."""
        return None

    def restore(self, data: SnapshotData, decoded: object = None) -> None:
        self.commands = array("Q")
        self.digest = 0
        if data:
            joined = whole(data)
            count, self.digest = _HEAD.unpack_from(joined)
            self.commands.frombytes(joined[_HEAD.size :])
            assert len(self.commands) == count, "a snapshot arrived in parts"
