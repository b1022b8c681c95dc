"""One term of serving a stream group: the coordinator at the metadata's leader, and a partition at its leader.

The steps of a real node, without its sockets: requests are checked, proposed and answered; the coordinator keeps the
times of heartbeats in its memory and takes silent members out. Every heartbeat is answered at once.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from flotilla.codec.batch.check import validate
from flotilla.codec.batch.facts import facts_of_view
from flotilla.codec.batch.header import patch_base_offset
from flotilla.metadata import commands
from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.stream_commands import JoinStreamGroup, ReleasePartitions, RemoveStreamMembers
from flotilla.metadata.stream_groups import StreamGroup, still_used
from flotilla.metadata.stream_sessions import StreamSessions
from flotilla.metadata.values import Topic
from flotilla.partition.commands.partition_commands import ClaimPartition as ClaimCommand
from flotilla.partition.commands.partition_commands import Command, encode_command
from flotilla.partition.commands.partition_commands import CommitOffset as CommitCommand
from flotilla.partition.leader.produce_admission import Assigned, ProduceAdmission
from flotilla.partition.queries import Position
from flotilla.partition.state.machine import PartitionMachine
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.wire import Answered
from flotilla.types.errors import FlotillaError, NotFoundError, StaleGenerationError, UnavailableError
from flotilla.types.ids import Term
from flotilla.types.operations import AlterTopic, CommitOffset, Done, OffsetCommitted, Produce, Produced, Request
from flotilla.types.operations.stream import ClaimPartition, GroupAssignment, Heartbeat, JoinGroup, LeaveGroup

_CHECK_MS: Final = 500
_CLUSTER: Final = "simulated"
_TERM_MASK: Final = 0xFFFFFFFF


class TermPorts(Protocol):
    """What a term needs of the process that it runs in."""

    def now_ms(self) -> int: ...

    def later(self, delay_ms: int, action: Callable[[], None]) -> None: ...

    def propose(self, data: bytes | memoryview, answered: Callable[[object], None]) -> bool: ...

    def seen(self, name: str) -> None: ...

    def note(self, text: str) -> None: ...


class CoordinatorTerm:
    def __init__(
        self, term: Term, machine: MetadataMachine, ports: TermPorts, topic: str, first_partitions: int
    ) -> None:
        self.term = term
        self.is_over = False
        self._machine = machine
        self._ports = ports
        self._topic_name = topic
        self._first_partitions = first_partitions
        self._began_ms = ports.now_ms()
        self._sessions = StreamSessions(self._began_ms)
        #: The same times, kept in the simplest way.
        self._heard_ms: dict[str, int] = {}
        self._serves: dict[type[Request], Callable[..., None]] = {
            JoinGroup: self._join,
            Heartbeat: self._heartbeat,
            LeaveGroup: self._leave,
            AlterTopic: self._alter,
        }
        self._check()

    def end(self) -> None:
        self.is_over = True

    def serve(self, request: Request, answer: Answered) -> None:
        self._serves[type(request)](request, answer)

    # Members.

    def _join(self, request: JoinGroup, answer: Answered) -> None:
        topic = self._topic()
        known = self._machine.state.streams.find(topic.topic_id, request.group)
        if known is not None and known.has_member(request.member):
            self._joined(request, answer, known)
            return
        command = JoinStreamGroup(
            topic.topic_id,
            request.group,
            request.member,
            request.client,
            request.strategy,
            request.session_ms,
            self._ports.now_ms(),
        )
        self._propose(command, partial(self._joined, request, answer))

    def _joined(self, request: JoinGroup, answer: Answered, result: object) -> None:
        if isinstance(result, StreamGroup):
            self._hear(result, request.member)
        answer(_assignment(result, request.member))

    def _heartbeat(self, request: Heartbeat, answer: Answered) -> None:
        group = self._machine.state.streams.find(self._topic().topic_id, request.group)
        if group is None or not group.has_member(request.member):
            raise StaleGenerationError(f"{request.member} is no member")
        if request.generation > group.generation:
            raise UnavailableError(f"generation {request.generation} is not known here")
        self._hear(group, request.member)
        given_up = group.given_up(request.member, request.generation, request.owned)
        now_ms = self._ports.now_ms()
        is_awaited = group.is_awaited(given_up)
        if given_up and not is_awaited and self._sessions.until_renewal_ms(group, request.member, now_ms):
            self._ports.seen("renewal put off")
            given_up = ()
        if not given_up:
            answer(_offer(group, request))
            return
        self._ports.seen("partition given up")
        if not is_awaited:
            self._sessions.renewed(group, request.member, now_ms)
        command = ReleasePartitions(
            group.topic_id, group.name, request.member, request.generation, given_up, self._ports.now_ms()
        )
        self._propose(command, lambda result: answer(_offer(result, request)))

    def _hear(self, group: StreamGroup, member: str) -> None:
        now_ms = self._ports.now_ms()
        self._sessions.heard(group, member, now_ms)
        self._heard_ms[member] = now_ms

    def _leave(self, request: LeaveGroup, answer: Answered) -> None:
        self._ports.seen("member left")
        command = RemoveStreamMembers(
            self._topic().topic_id, request.group, (request.member,), False, self._ports.now_ms()
        )
        self._propose(command, partial(_answer_done, answer))

    def _alter(self, request: AlterTopic, answer: Answered) -> None:
        command = commands.AlterTopic(request.topic, (), (), request.partitions, self._ports.now_ms())
        self._propose(command, partial(_answer_done, answer))

    # Silence.

    def _check(self) -> None:
        if self.is_over:
            return
        self._ports.later(_CHECK_MS, self._check)
        self._prepare()
        now_ms = self._ports.now_ms()
        for group, members in self._sessions.silent(self._machine.state.streams.all_groups(), now_ms):
            for member in members:
                silent_ms = now_ms - self._heard_ms.get(member, self._began_ms)
                if silent_ms < group.session_ms:
                    raise Violation("every member has a session", f"{member} is out after {silent_ms} ms")
            self._ports.seen("member fell silent")
            self._ports.note(f"takes {', '.join(members)} out of the group")
            command = RemoveStreamMembers(group.topic_id, group.name, members, True, now_ms)
            self._propose(command, _ignore)

    def _prepare(self) -> None:
        """The topic must exist before a member can read it."""
        state = self._machine.state
        now_ms = self._ports.now_ms()
        if not state.cluster.cluster_id:
            self._propose(commands.InitCluster(_CLUSTER, _CLUSTER, (1,), now_ms), _ignore)
        elif not state.brokers:
            self._propose(commands.RegisterBroker(_CLUSTER, 1, "a:1", "a:2", "", "", "1", 0, 0, now_ms), _ignore)
        elif state.topic(self._topic_name) is None:
            self._propose(commands.CreateTopic(self._topic_name, self._first_partitions, 1, (), now_ms), _ignore)

    def _topic(self) -> Topic:
        topic = self._machine.state.topic(self._topic_name)
        if topic is None:
            raise NotFoundError("the topic is not there yet")
        return topic

    def _propose(self, command: commands.Command, answered: Callable[[object], None]) -> None:
        refused = self._machine.check(command)
        if refused is not None:
            answered(refused)
        else:
            self._ports.propose(commands.encode_command(command), answered)


class PartitionTerm:
    def __init__(self, term: Term, machine: PartitionMachine, ports: TermPorts) -> None:
        self.term = term
        self.is_over = False
        self._machine = machine
        self._ports = ports
        self._admission = ProduceAdmission(machine)
        self._serves: dict[type[Request], Callable[..., None]] = {
            Produce: self._produce,
            ClaimPartition: self._claim,
            CommitOffset: self._commit,
        }

    def end(self) -> None:
        self.is_over = True

    def serve(self, request: Request, answer: Answered) -> None:
        self._serves[type(request)](request, answer)

    def _produce(self, request: Produce, answer: Answered) -> None:
        admission = self._admission.admit(facts_of_view(validate(request.batch)), None)
        assert isinstance(admission, Assigned)
        base_offset = admission.base_offset
        batch = bytearray(request.batch)
        patch_base_offset(batch, base_offset, self.term & _TERM_MASK)

        def answered(result: object) -> None:
            answer(result if isinstance(result, FlotillaError) else Produced(base_offset))

        if not self._ports.propose(memoryview(batch), answered):
            self._admission.retract(base_offset)

    def _claim(self, request: ClaimPartition, answer: Answered) -> None:
        self._propose(ClaimCommand(request.group, request.epoch, self._ports.now_ms()), answer)

    def _commit(self, request: CommitOffset, answer: Answered) -> None:
        command = CommitCommand(request.group, request.offset, self._ports.now_ms(), request.reset, b"", request.epoch)
        self._propose(command, answer)

    def _propose(self, command: Command, answer: Answered) -> None:
        refused = self._machine.check(command)
        if isinstance(refused, StaleGenerationError):
            self._ports.seen("late commit refused")
        if refused is not None:
            answer(refused)
        else:
            self._ports.propose(encode_command(command), partial(_answer_offset, answer))


def _offer(result: object, request: Heartbeat) -> GroupAssignment | FlotillaError:
    found = _assignment(result, request.member)
    if isinstance(found, GroupAssignment):
        found.partitions = still_used(found.partitions, request.generation, request.owned)
    return found


def _assignment(result: object, member: str) -> GroupAssignment | FlotillaError:
    if isinstance(result, FlotillaError):
        return result
    owned = result.assignments().get(member) if isinstance(result, StreamGroup) else None
    if owned is None:
        return StaleGenerationError(f"{member} is no member")
    assert isinstance(result, StreamGroup)
    return GroupAssignment(result.generation, owned, result.session_ms)


def _answer_offset(answer: Answered, result: object) -> None:
    if isinstance(result, FlotillaError):
        answer(result)
        return
    offset = result.offset if isinstance(result, Position) else result
    assert isinstance(offset, int)
    answer(OffsetCommitted(offset))


def _answer_done(answer: Answered, result: object) -> None:
    answer(result if isinstance(result, FlotillaError) else Done())


def _ignore(_: object) -> None:
    """Tried again at the next check."""
