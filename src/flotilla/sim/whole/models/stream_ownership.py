"""The rules of one stream group: which member owns and uses which partition.

They know nothing of how assignments are made.
"""

from collections import Counter
from zlib import crc32

from flotilla.metadata.assignment import NO_OWNER
from flotilla.metadata.commands import decode_command
from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.stream_commands import ReleasePartitions
from flotilla.metadata.stream_groups import Share, StreamGroup
from flotilla.raft.messages import Entry
from flotilla.sim.checkers.violation import Violation
from flotilla.types.ids import Index
from flotilla.types.operations.stream import STICKY


class Pages:
    """The state after each entry, equal at all replicas."""

    __slots__ = ("_sums", "newest")

    def __init__(self, empty: object) -> None:
        self._sums: dict[Index, object] = {0: empty}
        self.newest: Index = 0

    def write(self, index: Index, sums: object) -> None:
        self.newest = index
        self._sums[index] = sums

    def compare(self, node: str, index: Index, sums: object, promise: str) -> None:
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
        command = decode_command(entry.data)
        is_given = isinstance(command, ReleasePartitions) and command.member == was.owner
        if not is_given or self.used.get((number, was.owner)) == was.epoch:
            promise = "what stays is not touched" if was.owner == share.owner else "given up before given away"
            raise Violation(promise, f"partition {number} went from {was} to {share}")


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
