"""The metadata of real brokers: equal at all replicas, with rules for stream groups and for decisions.

Ownership is judged by rules that know nothing of how assignments are made.
"""

from collections.abc import Iterable
from typing import Any, Final

from flotilla import machine
from flotilla.broker.catalog import CatalogMachine
from flotilla.metadata.commands import Command, CommitTogether, DecideTransaction, DeleteTopic, decode_command
from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.stream_groups import StreamGroup
from flotilla.metadata.stream_sessions import Silent, StreamSessions
from flotilla.metadata.transactions import COMMITTED, Transaction
from flotilla.metadata.values import Topic
from flotilla.raft.messages import Entry
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.whole.models.record import WatchRecord
from flotilla.sim.whole.models.stream_ownership import GroupOwnership, Pages, metadata_digest
from flotilla.types.errors import FlotillaError
from flotilla.types.snapshot_data import SnapshotData

#: The whole state is compared behind every so many entries.
_PAGE_ENTRIES: Final = 32


class OwnershipWatch:
    """All stream groups, and the decisions about transactions."""

    def __init__(self, watch: WatchRecord) -> None:
        self._watch = watch
        self.pages = Pages(metadata_digest(MetadataMachine()))
        self._groups: dict[tuple[int, str], GroupOwnership] = {}

    def group(self, topic_id: int, name: str) -> GroupOwnership:
        return self._groups.setdefault((topic_id, name), GroupOwnership())

    def applied(self, node: str, entry: Entry, result: object, replica: MetadataMachine) -> None:
        # A digest of everything is dear: now and then it must agree, and at every entry the results.
        is_page = entry.index % _PAGE_ENTRIES == 0
        digest = metadata_digest(replica) if is_page else _comparable(result)
        if entry.index > self.pages.newest:
            if not isinstance(result, FlotillaError):
                self._write(decode_command(entry.data), result)
            for group in replica.state.streams.all_groups():
                self._judge(entry, group)
            self.pages.write(entry.index, digest)
        self.pages.compare(node, entry.index, digest, "equal states")

    def restored(self, node: str, replica: MetadataMachine) -> None:
        if replica.applied % _PAGE_ENTRIES == 0:
            self.pages.compare(node, replica.applied, metadata_digest(replica), "snapshot equals replay")

    def _judge(self, entry: Entry, group: StreamGroup) -> None:
        self.group(group.topic_id, group.name).changed(entry, group)

    def _write(self, command: Command, result: object) -> None:
        if isinstance(result, Topic):
            if isinstance(command, DeleteTopic):
                self._watch.deleted[result.topic_id] = None
            else:
                self._watch.topics[result.topic_id] = result
        if not isinstance(result, Transaction):
            return
        is_committed = result.state == COMMITTED
        decided = self._watch.registry.decided
        if isinstance(command, CommitTogether):
            for name, groups in command.members:
                decided(name, is_committed, groups)
        elif isinstance(command, DecideTransaction):
            decided(command.transaction_id, is_committed, command.groups)


class WatchedCatalog(CatalogMachine):
    """A replica of the metadata whose every step is compared with the others."""

    def __init__(self, watch: WatchRecord, ownership: OwnershipWatch) -> None:
        self._watch = watch
        self._ownership = ownership
        self._node = machine.here().host_name()
        super().__init__()

    def apply(self, entry: Entry) -> object:  # type: ignore[override]
        result = super().apply(entry)
        self._watch.check(self._ownership.applied, self._node, entry, result, self)
        return result

    def restore(self, data: SnapshotData, decoded: Any = None) -> None:
        super().restore(data, decoded)
        self._watch.check(self._ownership.restored, self._node, self)


class WatchedSessions(StreamSessions):
    """Members are out after a whole session of silence, and not before."""

    __slots__ = ("_began_ms", "_heard_ms", "_watch")

    def __init__(self, watch: WatchRecord, now_ms: int) -> None:
        super().__init__(now_ms)
        self._watch = watch
        self._began_ms = now_ms
        self._heard_ms: dict[tuple[int, str, str], int] = {}

    def heard(self, group: StreamGroup, member: str, now_ms: int) -> None:
        super().heard(group, member, now_ms)
        self._heard_ms[group.topic_id, group.name, member] = now_ms

    def silent(self, groups: Iterable[StreamGroup], now_ms: int) -> list[Silent]:
        found = super().silent(groups, now_ms)
        for group, members in found:
            self._watch.check(self._check_silence, group, members, now_ms)
        return found

    def _check_silence(self, group: StreamGroup, members: tuple[str, ...], now_ms: int) -> None:
        for member in members:
            heard_ms = self._heard_ms.get((group.topic_id, group.name, member), self._began_ms)
            if now_ms - heard_ms < group.session_ms:
                raise Violation("every member has a session", f"{member} is out after {now_ms - heard_ms} ms")


def _comparable(result: object) -> object:
    """Errors have no equality of their own, and no result at all is one, too."""
    return (repr(result) if isinstance(result, FlotillaError) else result,)
