"""A leader's view of one replica's log, and the flow control of appends to it.

state      meaning                                            leaves it when
PROBE      where the logs agree is unknown: one append,       accepted -> REPLICATE
           then wait for its reply or a heartbeat's           before the log's start -> SNAPSHOT
REPLICATE  appends are pipelined, bounded by bytes and count  refused or link lost -> PROBE
SNAPSHOT   the log does not reach back far enough: chunks     installed or caught up -> PROBE
           of a snapshot go out, one at a time
"""

from collections import deque
from dataclasses import dataclass

from flotilla.raft.messages import SnapshotMeta
from flotilla.types.ids import Index

PROBE = 1
REPLICATE = 2
SNAPSHOT = 3

STATE_NAMES = {PROBE: "probe", REPLICATE: "replicate", SNAPSHOT: "snapshot"}


class Progress:
    __slots__ = (
        "commit_sent",
        "inflight",
        "inflight_bytes",
        "is_chunk_due",
        "match",
        "needs_snapshot",
        "next",
        "probe_sent",
        "recent_active",
        "snapshot",
        "snapshot_offset",
        "snapshot_wait_ticks",
        "state",
        "verify_id",
    )

    def __init__(self, next_index: Index) -> None:
        #: The logs are known to agree up to here, durably on the replica. Never moves back in a term.
        self.match: Index = 0
        #: The next entry to send; match < next.
        self.next: Index = next_index
        self.state = PROBE
        #: PROBE only: an append is in flight.
        self.probe_sent = False
        #: The highest commit index sent to this replica.
        self.commit_sent: Index = 0
        #: REPLICATE only: (last index, bytes) of appends in flight.
        self.inflight: deque[tuple[Index, int]] = deque()
        self.inflight_bytes = 0
        #: The request that asks whether the replica still has what it acknowledged; 0: there is no doubt.
        self.verify_id = 0
        #: Heard from since the last quorum check.
        self.recent_active = False
        #: The replica needs entries from before the log, which appends cannot bring.
        self.needs_snapshot = False
        #: SNAPSHOT only: the snapshot, the bytes of it that have arrived, and the ticks since the last chunk.
        self.snapshot: SnapshotMeta | None = None
        self.snapshot_offset = 0
        self.snapshot_wait_ticks = 0
        #: SNAPSHOT only: the next chunk is being read from disk.
        self.is_chunk_due = False

    def become_probe(self) -> None:
        installed = self.snapshot.log_index if self.snapshot is not None else 0
        self._reset(PROBE)
        self.next = max(self.match, installed) + 1

    def become_replicate(self) -> None:
        self._reset(REPLICATE)
        self.next = self.match + 1

    def become_snapshot(self, meta: SnapshotMeta) -> None:
        self._reset(SNAPSHOT)
        self.needs_snapshot = False
        self.snapshot = meta

    def _reset(self, state: int) -> None:
        self.state = state
        self.probe_sent = False
        self.inflight.clear()
        self.inflight_bytes = 0
        self.snapshot = None
        self.snapshot_offset = 0
        self.snapshot_wait_ticks = 0
        self.is_chunk_due = False

    def has_been_sent(self, last: Index, news: Index) -> bool:
        """Whether every entry and the commit index `news` were sent, on a pipelined link."""
        return self.state == REPLICATE and self.next > last and self.commit_sent >= news and not self.needs_snapshot

    def is_paused(self, bytes_max: int, count_max: int) -> bool:
        if self.state == REPLICATE:
            return self.inflight_bytes >= bytes_max or len(self.inflight) >= count_max
        if self.state == PROBE:
            return self.probe_sent
        return True

    def sent(self, last_index: Index, size_bytes: int) -> None:
        """Entries up to last_index were sent."""
        if self.state == REPLICATE:
            self.next = last_index + 1
            self.inflight.append((last_index, size_bytes))
            self.inflight_bytes += size_bytes
        else:
            assert self.state == PROBE
            self.probe_sent = True

    def accepted(self, index: Index) -> bool:
        """The replica's log agrees up to `index`. Returns whether `match` moved."""
        while self.inflight and self.inflight[0][0] <= index:
            self.inflight_bytes -= self.inflight.popleft()[1]
        news = index > self.match
        if news:
            self.match = index
        self.next = max(self.next, index + 1)
        return news

    def refused(self, index: Index, hint: Index) -> bool:
        """An append after `index` did not match; the logs may agree at or before `hint`. False: a stale reply."""
        if self.state == REPLICATE:
            # Appends are in order on a link; anything at or below match is an old refusal.
            if index <= self.match:
                return False
            self.become_probe()
            return True
        if self.next - 1 != index:
            return False
        before = self.next
        self.next = max(min(index, hint + 1), self.match + 1)
        # A replica that refuses at `match` may have forgotten: the leader asks it (`verify_id`) before it goes back.
        # The next probe waits for a heartbeat reply, or the two would exchange messages without end.
        self.probe_sent = self.next == before
        return True

    def forgotten(self, last_index: Index) -> None:
        """The replica has lost what it had acknowledged, and its log ends at `last_index`: nothing of it counts."""
        self._reset(PROBE)
        self.match = 0
        self.next = last_index + 1


@dataclass(slots=True)
class Departure:
    """A member on its way out, as the leader knows it."""

    #: Of the configuration without it.
    index: Index
    match: Index
    next: Index
    ticks: int = 0
    #: An append is to be sent: at first, after an answer that calls for another, and with each heartbeat.
    is_due: bool = True
