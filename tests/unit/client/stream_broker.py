"""A cluster in memory with stream groups: the real table of groups, and partitions that know epochs.

Time does not pass here: a parked heartbeat is answered when something changes, or when the test says so.
"""

from collections.abc import Callable

from flotilla.broker.ports import Cancel, Done
from flotilla.metadata.stream_groups import GroupMember, StreamGroup, StreamGroupTable
from flotilla.types.errors import FlotillaError, NotLeaderError, StaleGenerationError
from flotilla.types.operations import CommitOffset, OffsetCommitted, Reply, Request
from flotilla.types.operations import Done as DoneReply
from flotilla.types.operations.stream import (
    NO_OFFSET,
    ClaimPartition,
    GroupAssignment,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
)
from tests.unit.client.broker import MemoryCluster

_TOPIC_ID = 1


class StreamCluster(MemoryCluster):
    def __init__(self, nodes: int = 1) -> None:
        super().__init__(nodes)
        self.table = StreamGroupTable()
        #: By group, topic and partition: the newest epoch that was claimed.
        self.epochs: dict[tuple[str, str, int], int] = {}
        self._waiting: list[Callable[[bool], bool]] = []

    def group(self, name: str = "billing") -> StreamGroup:
        found = self.table.find(_TOPIC_ID, name)
        assert found is not None
        return found

    def owners(self, name: str = "billing") -> dict[str, list[int]]:
        """What each member may own now."""
        return {
            member: [owned.partition for owned in owned_by]
            for member, owned_by in self.group(name).assignments().items()
        }

    def remove(self, member: str, group: str = "billing") -> None:
        """Takes a member out that was not heard of."""
        self.table.remove(_TOPIC_ID, group, [member], "was silent", 0)
        self.wake()

    def wake(self, *, is_due: bool = False) -> None:
        """Answers heartbeats that have news, or all of them."""
        self._waiting = [answer for answer in self._waiting if not answer(is_due)]

    def handle(self, node: int, request: Request, done: Done) -> Cancel | None:
        if not isinstance(request, Heartbeat):
            return super().handle(node, request, done)
        self.requests.append((node, request))
        refused = self.fault(node, request)
        if refused is not None:
            done(refused)
            return None

        def answer(is_due: bool) -> bool:
            try:
                found = self._heartbeat(node, request)
            except FlotillaError as error:
                done(error)
                return True
            is_same = sorted(request.owned) == [owned.partition for owned in found.partitions]
            is_old = any(owned.epoch > request.generation for owned in found.partitions)
            if is_same and not is_old and request.wait_ms and not is_due:
                return False
            done(found)
            return True

        if answer(False):
            return None
        self._waiting.append(answer)
        return lambda: self._waiting.remove(answer) if answer in self._waiting else None

    def _heartbeat(self, node: int, request: Heartbeat) -> GroupAssignment:
        self._lead(node)
        group = self.table.find(_TOPIC_ID, request.group)
        if group is None or not group.has_member(request.member):
            raise StaleGenerationError("no member")
        given_up = group.given_up(request.member, request.generation, request.owned)
        if given_up:
            group = self.table.release(_TOPIC_ID, request.group, request.member, request.generation, given_up)
            assert group is not None
            self.wake()
        return _assignment(group, request.member)

    def _answer(self, node: int, request: Request) -> Reply | FlotillaError:
        if isinstance(request, JoinGroup):
            self._lead(node)
            group = self.table.join(
                _TOPIC_ID,
                request.group,
                GroupMember(request.member, request.client),
                request.strategy,
                request.session_ms,
                partition_count=len(self.topics[request.topic]),
                now_ms=0,
            )
            self.wake()
            return _assignment(group, request.member)
        if isinstance(request, LeaveGroup):
            self._lead(node)
            self.table.remove(_TOPIC_ID, request.group, [request.member], "left", 0)
            self.wake()
            return DoneReply()
        if isinstance(request, ClaimPartition):
            part = self._partition(node, request.topic, request.partition)
            self._check_epoch(request.group, request.topic, request.partition, request.epoch)
            return OffsetCommitted(part.groups.get(request.group, NO_OFFSET))
        if isinstance(request, CommitOffset) and request.epoch:
            self._partition(node, request.topic, request.partition)
            self._check_epoch(request.group, request.topic, request.partition, request.epoch)
        return super()._answer(node, request)

    def _lead(self, node: int) -> None:
        if node != self.controller:
            raise NotLeaderError(self.controller, self.addresses[self.controller])

    def _check_epoch(self, group: str, topic: str, partition: int, epoch: int) -> None:
        key = (group, topic, partition)
        if epoch < self.epochs.get(key, 0):
            raise StaleGenerationError(f"epoch {epoch} is before {self.epochs[key]}")
        self.epochs[key] = epoch


def _assignment(group: StreamGroup, member: str) -> GroupAssignment:
    return GroupAssignment(group.generation, group.assignments()[member], group.session_ms)
