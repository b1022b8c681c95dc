"""A partition with its queue leader, driven by hand: the log commits on request."""

from dataclasses import dataclass, field, replace
from random import Random

from flotilla.partition.batch_facts import BatchFacts
from flotilla.partition.commands.partition_commands import ChangeHolders, DeleteGroup, OpenGroup, ResetGroup, SettleRuns
from flotilla.partition.explain.explanation import describe_group, explain_message
from flotilla.partition.leader.group_delivery import LeasedMessages
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.types.errors import FlotillaError
from flotilla.types.group_settings import GroupRules, resolve_rules
from flotilla.types.operations.queue import ACK, BY_BACKOFF, Explanation, GroupDescription, LeaseRange
from flotilla.types.topics import resolve_settings
from tests.unit.partition.batches import Log, batch, new_log

RULES = resolve_rules(resolve_settings(()), (("nack_backoff_ms", 100), ("nack_backoff_max_ms", 1000)))
GROUP = "g"


@dataclass
class Leading:
    """One partition and its leader of the moment. The group `g` begins at the log's start."""

    log: Log = field(default_factory=new_log)
    now_ms: int = 1_000
    term: int = 1
    term_start: int = 0
    grace_ms: int = 0
    rules: GroupRules = RULES
    keys: dict[int, bytes] = field(default_factory=dict)
    leader: QueueLeader = field(init=False)

    def __post_init__(self) -> None:
        self.leader = self._lead()
        self.open(GROUP)

    def _lead(self) -> QueueLeader:
        # A term begins with an entry that is no command.
        self.term_start = max(self.log.machine.applied, self.term_start) + 1
        return QueueLeader(
            self.log.machine,
            self.term,
            self.now_ms,
            Random(self.term),
            self.grace_ms,
            lambda _: self.rules,
            self.term_start,
        )

    def change_leader(self) -> None:
        """What the old one knew is lost."""
        self.term += 1
        self.leader = self._lead()

    def hand_over(self) -> None:
        """As planned: the next leader gets the leases."""
        self.flush()
        command = self.leader.hand_over(self.now_ms)
        assert command is not None
        self.log.command(command)

    def set(self, **rules: int) -> None:
        self.rules = replace(self.rules, **rules)

    # The log.

    def open(self, group: str, offset: int = 0) -> None:
        command = OpenGroup(group, offset, self.now_ms, first_lease=self.leader.first_lease)
        assert not isinstance(self.log.command(command), FlotillaError)

    def reset(self, offset: int) -> None:
        first_lease = self.leader.begin_reset(GROUP)
        assert not isinstance(self.log.command(ResetGroup(GROUP, offset, self.now_ms, first_lease)), FlotillaError)
        self.leader.end_reset(GROUP)

    def delete(self) -> None:
        assert not isinstance(self.log.command(DeleteGroup(GROUP, self.now_ms)), FlotillaError)

    def append(self, count: int = 1, *, priority: int = 0, deliver_at_ms: int = 0) -> int:
        offset = self.log.machine.next_offset
        stored = self.log.apply(batch(offset, count=count, priority=priority, deliver_at_ms=deliver_at_ms))
        assert isinstance(stored, BatchFacts)
        self.leader.applied(stored)
        return offset

    def take(self) -> list[SettleRuns]:
        commands = []
        while (command := self.leader.take_outbox(self.now_ms)) is not None:
            commands.append(command)
        return commands

    def commit(self, command: SettleRuns) -> None:
        assert not isinstance(self.log.command(command), FlotillaError)
        self.leader.committed(command)

    def flush(self) -> None:
        for command in self.take():
            self.commit(command)

    def reserve(self) -> int:
        """How many reservations were wanted."""
        wanted = self.leader.take_reservations(self.now_ms)
        for command in wanted:
            self.log.command(command)
        return len(wanted)

    # What a member does.

    def poll(
        self, count: int = 100, member: str = "m", group: str = GROUP, *, visibility_ms: int = 0
    ) -> list[LeasedMessages]:
        self.admit(member, group)
        return self.leader.poll(group, member, count, visibility_ms, self.now_ms)

    def poll_ordered(self, count: int = 100, member: str = "m") -> list[LeasedMessages]:
        self.admit(member)
        return self.leader.poll(GROUP, member, count, 0, self.now_ms, self.keys_of)

    def admit(self, member: str = "m", group: str = GROUP) -> None:
        """The name of a member is in the log before it gets its first lease."""
        if not self.leader.admits(group, member, self.now_ms):
            self.change_holders()
            assert self.leader.admits(group, member, self.now_ms)

    def change_holders(self) -> list[ChangeHolders]:
        changes = self.leader.take_holder_changes(self.now_ms)
        for command in changes:
            assert not isinstance(self.log.command(command), FlotillaError)
            self.leader.holders_changed(command)
        return changes

    def keys_of(self, first: int, end: int) -> list[bytes | None]:
        return [self.keys.get(offset) for offset in range(first, end)]

    def settle(
        self,
        leases: list[LeasedMessages] | list[LeaseRange],
        kind: int = ACK,
        *,
        reason: str = "",
        delay_ms: int = BY_BACKOFF,
    ) -> list[LeaseRange]:
        """Returns the refused ranges."""
        held = [LeaseRange(each.lease_id, each.first, each.end) for each in leases]
        return self.leader.settle(GROUP, kind, held, reason, delay_ms, self.now_ms)

    def extend(self, leases: list[LeasedMessages], visibility_ms: int = 1_000, member: str = "m") -> list[LeaseRange]:
        held = [LeaseRange(each.lease_id, each.first, each.end) for each in leases]
        return self.leader.extend(GROUP, member, held, visibility_ms, self.now_ms)

    # Time.

    def pass_ms(self, duration_ms: int) -> bool:
        """Whether anything became ready."""
        self.now_ms += duration_ms
        return self.leader.advance(self.now_ms)

    # Looks.

    def state(self, offset: int) -> str:
        return self.explain(offset).state

    def explain(self, offset: int, token_ms: int = 0) -> Explanation:
        return explain_message(self.leader, GROUP, offset, self.now_ms, token_ms)

    def describe(self) -> GroupDescription:
        return describe_group(self.leader, GROUP, self.now_ms)

    @property
    def floor(self) -> int:
        return self.log.machine.groups[GROUP].floor

    def attempts(self, offset: int) -> int:
        return self.log.machine.groups[GROUP].attempts(offset)


def runs(leases: list[LeasedMessages]) -> list[tuple[int, int]]:
    return [(lease.first, lease.end) for lease in leases]


def offsets(leases: list[LeasedMessages]) -> list[int]:
    return [offset for lease in leases for offset in range(lease.first, lease.end)]
