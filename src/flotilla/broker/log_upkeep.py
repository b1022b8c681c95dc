"""The upkeep of a partition's log by its leader: stamps of time, the window of deduplication, and retention.

Each is a command for what all replicas must do at the same point of the log and with the same time. The leader proposes
one at a time.
"""

from collections.abc import Callable
from typing import Protocol

from flotilla.broker.retention import Retention
from flotilla.broker.retention_holds import Holds
from flotilla.partition.commands.partition_commands import Command, ConfigureDedup, StampTime, TrimTo
from flotilla.partition.leader.log_time import LogTime
from flotilla.partition.leader.produce_admission import ProduceAdmission
from flotilla.partition.state.machine import PartitionMachine
from flotilla.types.errors import CorruptionError
from flotilla.types.topics import TopicSettings


class Time(Protocol):
    """The clocks of a node; see `ports.Outside`."""

    def now_ms(self) -> int: ...

    def steady_ms(self) -> int: ...

    def is_time_trusted(self) -> bool: ...


class LogUpkeep:
    """One term of one leader."""

    def __init__(
        self,
        machine: PartitionMachine,
        admission: ProduceAdmission,
        retention: Retention,
        time: Time,
        find_holds: Callable[[], Holds],
    ) -> None:
        """`find_holds`: what must stay. It raises CorruptionError."""
        self._machine = machine
        self._admission = admission
        self._retention = retention
        self._time = time
        self._find_holds = find_holds
        self._log_time = LogTime(machine.clock_ms, time.steady_ms())

    @property
    def behind_ms(self) -> int:
        """How much later than asked for messages go by age: retention removes a backlog step by step."""
        return self._log_time.behind_ms

    def command(self, settings: TopicSettings) -> Command | None:
        """What is due; None: nothing."""
        now_ms = self._time.now_ms()
        is_trusted = self._time.is_time_trusted()
        log_time = self._log_time
        oldest_ms = self._machine.stored.oldest_ms
        log_time.advance(now_ms if is_trusted else None, self._time.steady_ms(), oldest_ms)
        producers = self._machine.producers
        dedup = (settings.dedup_window_entries, settings.dedup_window_ms)
        if (producers.entries_max, producers.window_ms) != dedup:
            return ConfigureDedup(*dedup, now_ms)
        log_ms = log_time.now_ms
        if is_trusted and self._wants_stamp(settings, log_ms):
            return StampTime(log_ms)
        try:
            aged_ms = log_time.aged_ms if is_trusted else None
            trim_to = self._retention.target(settings, self._find_holds, now_ms, aged_ms)
        except CorruptionError:
            # Without reading the log, it is not known what must stay.
            return None
        return None if trim_to is None else TrimTo(trim_to, now_ms, self._machine.applied)

    def _wants_stamp(self, settings: TopicSettings, log_ms: int) -> bool:
        machine = self._machine
        return (
            self._admission.wants_stamp(log_ms)
            or self._retention.wants_stamp(settings, log_ms)
            or machine.results.wants_stamp(log_ms, machine.clock_ms)
        )
