"""A shadow of one stream group: which member owns and uses which partition, and what was committed.

The first replica that applies an entry updates the shadow; every other one must agree. Ownership is judged by a few
rules that know nothing of how assignments are made. Positions and fences are kept by the simplest code possible.
"""

from collections import Counter
from zlib import crc32

from flotilla.metadata.assignment import NO_OWNER
from flotilla.metadata.commands import decode_command as decode_metadata_command
from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.stream_commands import ReleasePartitions
from flotilla.metadata.stream_groups import Share, StreamGroup
from flotilla.partition.batch_facts import BatchFacts
from flotilla.partition.commands.partition_commands import ClaimPartition, CommitOffset, decode_command
from flotilla.partition.state.machine import PartitionMachine
from flotilla.raft.messages import Entry
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.plans.stream import READERS, TOPIC
from flotilla.types.errors import FlotillaError, StaleGenerationError
from flotilla.types.ids import Index, NodeId, Offset
from flotilla.types.operations.stream import NO_OFFSET, STICKY


class Pages:
    """The state after each entry, equal at all replicas."""

    __slots__ = ("_sums", "entry_count", "newest")

    def __init__(self, empty: object) -> None:
        self._sums: dict[Index, object] = {0: empty}
        self.newest: Index = 0
        self.entry_count = 0

    def is_new(self, node: NodeId | str, index: Index, commit: Index | None) -> bool:
        """`commit`: what the replica knows to be committed; None: another checker watches that."""
        if commit is not None and index > commit:
            raise Violation("applied only when committed", f"node {node} applied {index}, committed is {commit}")
        return index > self.newest

    def write(self, index: Index, sums: object) -> None:
        self.newest = index
        self.entry_count += 1
        self._sums[index] = sums

    def compare(self, node: NodeId | str, index: Index, sums: object, promise: str) -> None:
        known = self._sums.get(index)
        if known is None:
            raise Violation("applied once, in order", f"node {node} stands behind {index}, where no other replica was")
        if known != sums:
            raise Violation(promise, f"node {node} behind entry {index}: {sums} where others have {known}")


class GroupOwnership:
    """The members of one stream group and what they own."""

    def __init__(self) -> None:
        self.group: StreamGroup | None = None
        #: Partition and epoch to the member that got it then.
        self._owner_of: dict[tuple[int, int], str] = {}
        #: Partition and member to the epoch under which the member uses it, as the members themselves know it.
        self.used: dict[tuple[int, str], int] = {}

    def changed(self, entry: Entry, group: StreamGroup) -> None:
        """The group behind an entry."""
        before = self.group
        if group == before:
            return
        self.group = group
        if before is not None and group.generation <= before.generation:
            raise Violation("generations go on", f"from {before.generation} to {group.generation}")
        members = {member.name: None for member in group.members}
        for number, share in enumerate(group.shares):
            self._judge_owner(number, share, members)
            if before is not None and number < len(before.shares):
                self._judge_change(entry, number, before.shares[number], share, members)
        if group.strategy == STICKY:
            _judge_spread(group, before, members)

    def _judge_owner(self, number: int, share: Share, members: dict[str, None]) -> None:
        if members and (share.owner not in members or share.target not in members):
            raise Violation("every partition has an owner", f"partition {number} has {share}")
        if self._owner_of.setdefault((number, share.epoch), share.owner) != share.owner:
            other = self._owner_of[number, share.epoch]
            raise Violation("one owner per generation", f"{share.owner} got partition {number} like {other}: {share}")

    def _judge_change(self, entry: Entry, number: int, was: Share, share: Share, members: dict[str, None]) -> None:
        if was.epoch == share.epoch or was.owner not in members:
            return
        command = decode_metadata_command(entry.data)
        is_given = isinstance(command, ReleasePartitions) and command.member == was.owner
        if not is_given or self.used.get((number, was.owner)) == was.epoch:
            promise = "what stays is not touched" if was.owner == share.owner else "given up before given away"
            raise Violation(promise, f"partition {number} went from {was} to {share}")


class OwnershipShadow(GroupOwnership):
    """The metadata, as far as the group goes."""

    def __init__(self) -> None:
        super().__init__()
        self.pages = Pages(metadata_digest(MetadataMachine()))

    def applied(self, node: NodeId, entry: Entry, machine: MetadataMachine, commit: Index) -> None:
        digest = metadata_digest(machine)
        if self.pages.is_new(node, entry.index, commit):
            topic = machine.state.topic(TOPIC)
            group = None if topic is None else machine.state.streams.find(topic.topic_id, READERS)
            if group is not None:
                self.changed(entry, group)
            self.pages.write(entry.index, digest)
        self.pages.compare(node, entry.index, digest, "equal states")

    def restored(self, node: NodeId, machine: MetadataMachine) -> None:
        self.pages.compare(node, machine.applied, metadata_digest(machine), "snapshot equals replay")


def _judge_spread(group: StreamGroup, before: StreamGroup | None, members: dict[str, None]) -> None:
    """The spread is even, and new targets move no more partitions than exceed a member's share."""
    counts = Counter([share.target for share in group.shares])
    if members and max(counts.values()) - min([counts[name] for name in members]) > 1:
        raise Violation("the spread is even", f"{dict(counts)} in generation {group.generation}")
    if before is None or not members or group.cause == before.cause:
        return
    owners = [share.owner if share.owner in members else NO_OWNER for share in before.shares]
    moves = sum([owner not in (NO_OWNER, share.target) for owner, share in zip(owners, group.shares, strict=False)])
    least, rest = divmod(len(group.shares), len(members))
    above = [held - least for name, held in Counter(owners).items() if name != NO_OWNER and held > least]
    if moves != sum(above) - min(len(above), rest):
        raise Violation("the fewest moves", f"{moves} partitions move in generation {group.generation}")


def metadata_digest(machine: MetadataMachine) -> int:
    return crc32(machine.snapshot())


class PositionShadow:
    """One partition: the group's position, and the member that may move it."""

    def __init__(self) -> None:
        self.next_offset: Offset = 0
        self.position: Offset = NO_OFFSET
        self.fence = 0
        self.pages = Pages(self._sums())
        #: What members were answered: the furthest commit, and the latest claim.
        self.acknowledged: Offset = NO_OFFSET
        self.claimed = 0
        self._claimed_by: dict[int, str] = {}

    def _sums(self) -> tuple[int, int, int]:
        return self.next_offset, self.position, self.fence

    # What replicas do.

    def applied(self, node: NodeId, entry: Entry, result: object, machine: PartitionMachine, commit: Index) -> None:
        if self.pages.is_new(node, entry.index, commit):
            if isinstance(result, BatchFacts):
                self.next_offset += result.count
            else:
                self._write(entry, result)
            self.pages.write(entry.index, self._sums())
        self.pages.compare(node, entry.index, _sums_of(machine), "equal states")

    def restored(self, node: NodeId, machine: PartitionMachine) -> None:
        self.pages.compare(node, machine.applied, _sums_of(machine), "snapshot equals replay")

    def _write(self, entry: Entry, result: object) -> None:
        command = decode_command(entry.data)
        if not isinstance(command, (CommitOffset, ClaimPartition)):
            return
        if command.epoch < self.fence:
            if not isinstance(result, StaleGenerationError):
                raise Violation("late commits are refused", f"{command} behind a claim of {self.fence}: {result}")
        elif isinstance(result, FlotillaError):
            raise Violation("owners are heard", f"{command} was answered with {result!r}")
        else:
            self.fence = command.epoch
            if isinstance(command, CommitOffset):
                self.position = max(self.position, command.offset)

    # Answers to members.

    def claim_answered(self, member: str, epoch: int, offset: Offset, acknowledged: Offset) -> None:
        """`acknowledged`: the furthest commit that was acknowledged when the claim was sent."""
        if self._claimed_by.setdefault(epoch, member) != member:
            other = self._claimed_by[epoch]
            raise Violation("one owner per generation", f"{member} and {other} claim under {epoch}")
        self.claimed = max(self.claimed, epoch)
        self._check_answered(offset, acknowledged)

    def commit_answered(self, epoch: int, offset: Offset, acknowledged: Offset, claimed: int) -> None:
        """`claimed`: the latest epoch that was claimed when the commit was sent."""
        if epoch < claimed:
            raise Violation("late commits are refused", f"{offset} under {epoch}, and {claimed} was claimed before")
        self._check_answered(offset, acknowledged)
        self.acknowledged = max(self.acknowledged, offset)

    def _check_answered(self, offset: Offset, acknowledged: Offset) -> None:
        if offset < acknowledged:
            raise Violation("positions never go back", f"answered {offset}, and {acknowledged} was committed before")


def _sums_of(machine: PartitionMachine) -> tuple[int, int, int]:
    position = machine.positions.get(READERS)
    offset = NO_OFFSET if position is None else position.offset
    return machine.next_offset, offset, machine.fences.get(READERS, 0)
