"""Stream groups in the metadata: the cost of assigning a thousand partitions to a hundred members.

Each figure is the time of one entry at one replica, from its bytes to the new owners: a member joins, leaves, or
releases partitions; and of the strategy alone.
"""

from collections.abc import Callable
from time import process_time

from bench.figure import Figure, Goal, compare
from bench.options import BenchOptions
from flotilla.metadata.assignment import NO_OWNER, assign_sticky
from flotilla.metadata.commands import Command, CreateTopic, InitCluster, RegisterBroker, encode_command
from flotilla.metadata.machine import MetadataMachine
from flotilla.metadata.stream_commands import JoinStreamGroup, ReleasePartitions, RemoveStreamMembers
from flotilla.metadata.stream_groups import StreamGroup
from flotilla.raft.messages import DATA, Entry

AREA = "assignment"
PARTITIONS = 1_000
MEMBERS = 100
ENTRY_MS_MAX = 50.0
_NOW_MS = 1_000
_GROUP = "group"


class Subject:
    """A topic with all its partitions, and the members that have settled."""

    def __init__(self, members: int) -> None:
        self._machine = MetadataMachine()
        self._index = 0
        self.timed(InitCluster("bench", "bench", (1,), _NOW_MS))
        self.timed(RegisterBroker("bench", 1, "a:1", "a:2", "", "", "1", 0, 0, _NOW_MS))
        self.timed(CreateTopic("topic", PARTITIONS, 1, (), _NOW_MS))
        (self._topic_id,) = self._machine.state.topics
        for number in range(members):
            self.join(f"member-{number:03}")
        self.settle()

    @property
    def group(self) -> StreamGroup:
        group = self._machine.state.streams.find(self._topic_id, _GROUP)
        assert group is not None
        return group

    def timed(self, command: Command) -> float:
        """Milliseconds."""
        data = encode_command(command)
        self._index += 1
        began = process_time()
        result = self._machine.apply(Entry(self._index, 1, DATA, data))
        elapsed = process_time() - began
        assert not isinstance(result, Exception), result
        return 1000 * elapsed

    def join(self, member: str) -> float:
        return self.timed(JoinStreamGroup(self._topic_id, _GROUP, member, "bench", "", 0, _NOW_MS))

    def leave(self, member: str) -> float:
        return self.timed(RemoveStreamMembers(self._topic_id, _GROUP, (member,), False, _NOW_MS))

    def release(self, member: str) -> float:
        group = self.group
        owned = [partition for partition, _ in group.assignments()[member]]
        given_up = group.given_up(member, group.generation, owned)
        return self.timed(ReleasePartitions(self._topic_id, _GROUP, member, group.generation, given_up, _NOW_MS))

    def settle(self) -> float:
        """Every member releases what it must; the longest time of one."""
        return max([self.release(member.name) for member in self.group.members])


def _strategy() -> float:
    members = [f"member-{number:03}" for number in range(MEMBERS)]
    began = process_time()
    targets = assign_sticky(members, [NO_OWNER] * PARTITIONS)
    elapsed = process_time() - began
    assert len(set(targets)) == MEMBERS
    return 1000 * elapsed


def measure(options: BenchOptions) -> list[Figure]:
    subject = Subject(MEMBERS)

    def join() -> float:
        elapsed = subject.join("newcomer")
        subject.leave("newcomer")
        return elapsed

    def leave() -> float:
        subject.join("newcomer")
        subject.settle()
        elapsed = subject.leave("newcomer")
        subject.settle()
        return elapsed

    def settle() -> float:
        subject.join("newcomer")
        elapsed = subject.settle()
        subject.leave("newcomer")
        subject.settle()
        return elapsed

    cases: dict[str, Callable[[], float]] = {
        "strategy alone": _strategy,
        "a member joins": join,
        "a member gives up": settle,
        "a member leaves": leave,
    }
    return [
        compare(
            AREA,
            f"{name}: {PARTITIONS:,} partitions, {MEMBERS} members",
            "ms",
            subject=case,
            probe=lambda: ENTRY_MS_MAX,
            probe_name="limit",
            goal=Goal(1.0, at_most=True),
            rounds=5 if options.quick else 20,
        )
        for name, case in cases.items()
    ]
