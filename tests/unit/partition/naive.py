"""A partition as one would write it without a thought for speed: lists, walked from end to end.

It predicts what a leader must answer and what a machine must remember. Sequences do not go round.
"""

from dataclasses import dataclass, field


@dataclass
class Stored:
    producer: int
    epoch: int
    sequence: int
    count: int
    offset: int

    @property
    def end(self) -> int:
        return self.sequence + self.count

    def holds(self, sequence: int, count: int) -> bool:
        return self.sequence <= sequence and sequence + count <= self.end


@dataclass
class NaivePartition:
    entries_max: int
    window_ms: int
    horizon_ms: int
    next_offset: int = 0
    clock_ms: int = 0
    window: list[Stored] = field(default_factory=list)
    #: The last batch of each producer that has none in the window.
    idle: list[Stored] = field(default_factory=list)
    marks: list[tuple[int, int]] = field(default_factory=list)
    #: Everything below is older than the horizon.
    old_end: int = 0
    in_flight: list[Stored] = field(default_factory=list)

    def admit(self, producer: int, epoch: int, sequence: int, count: int) -> tuple[str, int]:
        """What becomes of a batch, and the offset that goes with it (-1: none)."""
        mine = [batch for batch in self.in_flight if batch.producer == producer]
        if not mine:
            return self.check(producer, epoch, sequence, count)
        newest = mine[-1]
        if epoch != newest.epoch:
            return self._other_epoch(newest.epoch, epoch, sequence)
        if sequence == newest.end:
            return "new", -1
        for batch in mine:
            if batch.epoch == epoch and batch.holds(sequence, count):
                return "in flight", batch.offset + sequence - batch.sequence
        found = self.check(producer, epoch, sequence, count)
        return ("gap", -1) if found[0] == "new" else found

    def check(self, producer: int, epoch: int, sequence: int, count: int) -> tuple[str, int]:
        known = [batch for batch in self.idle + self.window if batch.producer == producer]
        if not known:
            return ("new", -1) if sequence == 0 else ("out of window", -1)
        newest = known[-1]
        if epoch != newest.epoch:
            return self._other_epoch(newest.epoch, epoch, sequence)
        if sequence == newest.end:
            return "new", -1
        if sequence > newest.end:
            return "gap", -1
        mine = [batch for batch in self.window if batch.producer == producer and batch.epoch == epoch]
        if not mine or sequence < mine[0].sequence:
            return "out of window", -1
        for batch in mine:
            if batch.holds(sequence, count):
                return "duplicate", batch.offset + sequence - batch.sequence
        return "gap", -1

    def _other_epoch(self, known: int, epoch: int, sequence: int) -> tuple[str, int]:
        if epoch < known:
            return "fenced", -1
        return ("new", -1) if sequence == 0 else ("gap", -1)

    def store(self, batch: Stored) -> None:
        self.next_offset = batch.offset + batch.count
        if not batch.producer:
            return
        self.idle = [other for other in self.idle if other.producer != batch.producer]
        self.window.append(batch)
        if len(self.window) > self.entries_max:
            self._shrink(2)

    def _shrink(self, count: int) -> None:
        """The count takes what is older than the horizon, and no more than `count` at a time."""
        for _ in range(count):
            if len(self.window) > self.entries_max and self.window[0].offset < self.old_end:
                self._evict()
        for _ in range(count):
            if len(self.idle) > self.entries_max and self.idle[0].offset < self.old_end:
                self.idle.pop(0)

    def _evict(self) -> None:
        gone = self.window.pop(0)
        if all(batch.producer != gone.producer for batch in self.window):
            self.idle.append(gone)

    def stamp(self, now_ms: int) -> None:
        if now_ms <= self.clock_ms:
            return
        self.clock_ms = now_ms
        if not self.marks:
            is_due = self.next_offset > 0
        else:
            is_busy = 2 * max(len(self.window), len(self.idle)) > self.entries_max
            distance_ms = min(self.window_ms // 256, self.horizon_ms // 32) if is_busy else self.window_ms // 256
            is_due = self.next_offset > self.marks[-1][1] and now_ms - self.marks[-1][0] >= distance_ms
        if is_due:
            self.marks.append((now_ms, self.next_offset))
        while self.marks and self.marks[0][0] + self.window_ms <= now_ms:
            _, end = self.marks.pop(0)
            while self.window and self.window[0].offset < end:
                self._evict()
            self.idle = [batch for batch in self.idle if batch.offset >= end]
        old = [end for stamp_ms, end in self.marks if stamp_ms + self.horizon_ms <= now_ms]
        self.old_end = max([self.old_end, *old])
        self._shrink(1_024)
