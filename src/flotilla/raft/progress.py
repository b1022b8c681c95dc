"""What a leader knows of one other replica, and how fast it may send to it.

state      meaning                                            leaves it when
PROBE      where the logs agree is unknown: one append,       accepted -> REPLICATE
           then wait for the answer or a heartbeat's          behind the log's start -> SNAPSHOT
REPLICATE  appends are pipelined, bounded by bytes and count  refused or link lost -> PROBE
SNAPSHOT   the log does not reach back far enough: chunks     installed or caught up -> PROBE
           of a snapshot go out, one at a time
"""

from collections import deque

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
        "match",
        "needs_snapshot",
        "next",
        "probe_sent",
        "recent_active",
        "snapshot",
        "snapshot_offset",
        "snapshot_wait_ticks",
        "state",
    )

    def __init__(self, next_index: Index) -> None:
        #: The log is known to agree up to here, durably on the other side. Never moves back in a term.
        self.match: Index = 0
        #: The next entry to send; match < next.
        self.next: Index = next_index
        self.state = PROBE
        #: PROBE only: an append is out and unanswered.
        self.probe_sent = False
        #: The highest commit index told to this replica.
        self.commit_sent: Index = 0
        #: REPLICATE only: (last index, bytes) of appends not yet answered.
        self.inflight: deque[tuple[Index, int]] = deque()
        self.inflight_bytes = 0
        #: Heard from since the last quorum check.
        self.recent_active = False
        #: Asked for entries that lie before the log: appends will not do.
        self.needs_snapshot = False
        #: SNAPSHOT only: which one, how much of it has arrived, and how long the last chunk is unanswered.
        self.snapshot: SnapshotMeta | None = None
        self.snapshot_offset = 0
        self.snapshot_wait_ticks = 0

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

    def has_been_sent(self, last: Index, news: Index) -> bool:
        """Pipelined, and everything there is went out, with the news of what is committed."""
        return self.state == REPLICATE and self.next > last and self.commit_sent >= news and not self.needs_snapshot

    def is_paused(self, bytes_max: int, count_max: int) -> bool:
        if self.state == REPLICATE:
            return self.inflight_bytes >= bytes_max or len(self.inflight) >= count_max
        if self.state == PROBE:
            return self.probe_sent
        return True

    def sent(self, last_index: Index, size_bytes: int) -> None:
        """Entries up to last_index went out."""
        if self.state == REPLICATE:
            self.next = last_index + 1
            self.inflight.append((last_index, size_bytes))
            self.inflight_bytes += size_bytes
        else:
            assert self.state == PROBE
            self.probe_sent = True

    def accepted(self, index: Index) -> bool:
        """The replica's log agrees up to `index`. Tells whether that is news."""
        while self.inflight and self.inflight[0][0] <= index:
            self.inflight_bytes -= self.inflight.popleft()[1]
        news = index > self.match
        if news:
            self.match = index
        self.next = max(self.next, index + 1)
        return news

    def refused(self, index: Index, hint: Index) -> bool:
        """An append behind `index` did not fit; agreement is possible at or before `hint`. False: a stale answer."""
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
        # One that refuses what it had on disk once has lost it, and going back does not help: to ask again is for the
        # next heartbeat, or the two would talk without end.
        self.probe_sent = self.next == before
        return True
