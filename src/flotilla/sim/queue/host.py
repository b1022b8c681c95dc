"""A partition on a simulated node: the real machine, and while the node leads, one term of serving it.

The application of a run in which the cluster is used as a queue. It makes the machine of each replica, watched by
the shadow of its partition, and takes requests at every node. A host lives as long as the process: a crash takes all
it knew, but for what the log says.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from flotilla.codec.batch.facts import facts_of, span_of
from flotilla.partition.batch_facts import BatchFacts
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.transactions import Concluded, Published
from flotilla.raft.messages import Entry
from flotilla.raft.node import RaftNode
from flotilla.sim.checkers.ages import AgeChecker
from flotilla.sim.checkers.queue_delivery import DeliveryChecker
from flotilla.sim.checkers.queue_shadow import GroupShadow, QueueShadow, Ways
from flotilla.sim.checkers.queue_transactions import Registry
from flotilla.sim.coverage import Sometimes
from flotilla.sim.devices.network import Network
from flotilla.sim.devices.world import MS, SECOND, World
from flotilla.sim.host import GroupHost, HostedApplication
from flotilla.sim.node import Callback, SimNode
from flotilla.sim.observer import GroupObserver
from flotilla.sim.plans.queue import DEAD_LETTERS, GENEROUS_PER_MINUTE, TOPIC, draw_queue_plan
from flotilla.sim.plans.queue_message import BY_NOTHING, Letter, read_letter, read_message
from flotilla.sim.plans.run import Plan
from flotilla.sim.queue.decisions import DecisionBoard
from flotilla.sim.queue.term import QueueTerm
from flotilla.sim.trace import Trace
from flotilla.sim.wire import Answered, Caller, Outcome, Wire
from flotilla.types.errors import CorruptionError, NotLoadedError, StorageFailedError, UnavailableError
from flotilla.types.group_settings import GroupRules
from flotilla.types.ids import NO_NODE, GroupId, NodeId, Offset, Term
from flotilla.types.operations import Produce, Request
from flotilla.types.records import Record
from flotilla.types.snapshot_data import SnapshotData, whole
from flotilla.types.span import Span
from flotilla.types.topics import resolve_settings

_ELSEWHERE_US: Final = 2 * SECOND
#: Between two looks of a leader at its log and its timers.
_UPKEEP_MS: Final = 2_000


class WatchedPartition(PartitionMachine):
    """A partition whose every step is compared with the shadow."""

    def __init__(self, node: NodeId, observer: GroupObserver, shadow: QueueShadow, ages: AgeChecker) -> None:
        self._node = node
        self._ages = ages
        self._observer = observer
        self._shadow = shadow
        #: Known once the replica exists.
        self.raft: RaftNode | None = None
        self.on_applied: Callable[[BatchFacts | Published | Concluded], None] = _nobody
        super().__init__(facts_of)

    def apply(self, entry: Entry) -> object:  # type: ignore[override]
        self._observer.log.stored(self._node, entry)
        result = super().apply(entry)
        self._ages.applied(self.log_start, self.next_offset)
        commit = self.raft.log.committed if self.raft is not None else 0
        self._shadow.applied(self._node, entry, result, self, commit)
        if isinstance(result, BatchFacts | Published | Concluded):
            self.on_applied(result)
        return result

    def freeze(self) -> Callable[[], Iterator[bytes]]:
        """A snapshot is that of one entry, however many are applied before it is written."""
        data = b"".join(super().freeze()())
        self._shadow.took_snapshot(self._node, self.applied, data)
        encode = super().freeze()

        def encoded() -> Iterator[bytes]:
            self._shadow.wrote_snapshot(self._node, data, b"".join(encode()))
            yield data

        return encoded

    def restore(self, data: SnapshotData, decoded: object = None) -> Iterator[None]:
        remains = super().restore(data, decoded)
        self._shadow.restored(self._node, self, whole(data))
        return remains


def _nobody(_: object) -> None:
    return


class _QueueWays(Ways):
    def __init__(self, rules: dict[str, GroupRules]) -> None:
        self._rules = rules

    def rules_of(self, name: str) -> GroupRules:
        return self._rules[name]

    def holders(self) -> Iterable[str]:
        return [name for name, rules in self._rules.items() if rules.holds_retention]

    def identity_of(self, record: Record) -> tuple[Hashable, bool]:
        identity, protection = read_message(record.payload)
        return identity, protection != BY_NOTHING

    def letter_in(self, record: Record) -> Hashable | None:
        return read_letter(record.payload) if record.payload[:1] == b"D" else None

    def letter_of(self, group: GroupShadow, number: int) -> Hashable:
        return Letter(number, group.deaths[number], group.name)


class QueueHost(GroupHost[QueueTerm]):
    """One partition in one process. Implements `TermPorts`."""

    def __init__(self, node: SimNode, group: GroupId, machine: WatchedPartition, app: "QueueApplication") -> None:
        super().__init__(node, group, app.sometimes, app.trace)
        self.machine = machine
        self.checker = app.checker
        self.board = app.board
        self.stages = app.shadow[group].stages
        self.ages = app.ages[group]
        self._app = app
        self._released: Offset = 0
        #: For the dead letters, which another node may lead.
        self._elsewhere = Caller(app.wire, DEAD_LETTERS, app.random, _ELSEWHERE_US)
        machine.on_applied = self._applied

    # Leading.

    def begin(self, term: Term) -> QueueTerm:
        self.replica.last_word = self._hand_over
        begun = QueueTerm(self.node.id, term, self, self._app.random, self._app.settings[self.group])
        self.later(_UPKEEP_MS, partial(self._keep_up, begun))
        return begun

    def _hand_over(self) -> None:
        self.look()
        if self.term is not None:
            self.term.hand_over()

    def serve(self, request: Request, answer: Answered) -> None:
        if self.replica.raft.transferee != NO_NODE:
            raise UnavailableError("leadership is being handed over")
        super().serve(request, answer)

    def may_begin(self) -> bool:
        return self.node.cluster_clock.may_lead()

    def look(self) -> None:
        super().look()
        if self.machine.log_start > self._released:
            self._release()

    def _keep_up(self, term: QueueTerm) -> None:
        if not term.is_over:
            term.keep_up()
            self.later(_UPKEEP_MS, partial(self._keep_up, term))

    def _release(self) -> None:
        """The replica's log shrinks to what was trimmed, but for the dying and the staged."""
        needed = self.machine.needed_from()
        if needed <= self._released:
            return
        try:
            index = self.replica.index_holding(needed)
        except (CorruptionError, NotLoadedError, StorageFailedError):
            return
        if index is not None:
            staged = self.machine.transactions.oldest_index()
            if staged is None or staged >= index:
                self._released = needed
            self.replica.release_below(index if staged is None else min(index, staged))

    def _applied(self, result: BatchFacts | Published | Concluded) -> None:
        if self.term is not None:
            self.term.applied(result)

    # What a term needs.

    def now_us(self) -> int:
        return self._app.world.now_us

    def now_ms(self) -> int:
        return self.node.cluster_clock.now_ms()

    def steady_ms(self) -> int:
        return self.node.uptime_ms()

    def is_time_trusted(self) -> bool:
        return self.node.cluster_clock.is_trusted

    def rules_of(self, group: str) -> GroupRules:
        return self._app.rules[group]

    def holders(self) -> list[str]:
        return [name for name, rules in self._app.rules.items() if rules.holds_retention]

    def read(self, query: object, answered: Callable[[object], None]) -> None:
        assert self.node.driver is not None
        self.node.driver.read(self.group, query, Callback(answered))

    def ask_elsewhere(self, request: Produce, answered: Answered) -> None:
        incarnation = self.node.incarnation

        def heard(outcome: Outcome) -> None:
            if self.node.incarnation == incarnation:
                self.node.call(lambda _: answered(outcome))

        self._elsewhere.ask(request, heard)


class QueueApplication(HostedApplication[QueueHost]):
    """Everything of a run that belongs to the queue and not to its clients. Implements `Application`."""

    def __init__(self, world: World, network: Network, run: Plan, sometimes: Sometimes, trace: Trace) -> None:
        super().__init__(world, sometimes, trace)
        self.plan = plan = draw_queue_plan(run.seed)
        #: Chance that the product draws from: jitter of backoffs.
        self.random: Random = world.stream("queue")
        self.wire = Wire(world, network, self)
        self.rules: dict[str, GroupRules] = {group.name: group.rules for group in plan.groups}
        letters: dict[Hashable, Offset] = {}
        ways = _QueueWays(self.rules)
        self.registry = Registry()
        self.board = DecisionBoard(world, self.wire, self.registry, self._heard)
        self.shadow = {group: QueueShadow(group, ways, letters, self.registry) for group in (TOPIC, DEAD_LETTERS)}
        self.letters = letters
        skew_ms, drift_ppm = max(plan.skews_ms), run.drift_ppm_max
        self.ages = {
            TOPIC: AgeChecker(world, plan.retention_ms, plan.keep_messages, skew_ms, drift_ppm),
            DEAD_LETTERS: AgeChecker(world, 0, 0, skew_ms, drift_ppm),
        }
        chosen = (("retention_ms", plan.retention_ms), ("retention_messages", plan.keep_messages))
        self.settings = {TOPIC: resolve_settings(chosen), DEAD_LETTERS: resolve_settings((("retention_ms", 0),))}
        self._clocks_set: dict[NodeId, None] = {}
        self.checker = DeliveryChecker(self.shadow[TOPIC], plan.skew_ms, lambda: world.now_us, run.weather.silence_us)

    def _set_clock(self, node: SimNode) -> None:
        """The wall clock of every node is a little ahead, by its own skew."""
        if node.id not in self._clocks_set:
            self._clocks_set[node.id] = None
            node.clock.jump(self.plan.skews_ms[node.id % len(self.plan.skews_ms)] * MS)

    def raise_limits(self) -> None:
        """Rate limits are lifted to where a backlog goes quickly."""
        for name, rules in self.rules.items():
            if rules.rate_limit_per_minute:
                self.rules[name] = replace(rules, rate_limit_per_minute=GENEROUS_PER_MINUTE)

    # What nodes need.

    def groups(self) -> Iterable[GroupId]:
        return self.shadow

    def describe(self, entry: Entry) -> Span | None:
        return span_of(entry)

    def machine(self, node: SimNode, group: GroupId, observer: GroupObserver) -> WatchedPartition:
        self._set_clock(node)
        machine = WatchedPartition(node.id, observer, self.shadow[group], self.ages[group])
        if self.hosts.pop((node.id, group), None) is not None and group == TOPIC:
            self.board.restarted(node.id)
        self.hosts[node.id, group] = QueueHost(node, group, machine, self)
        return machine

    def _heard(self, node: NodeId) -> None:
        """A node has heard of decisions about transactions."""
        for group in self.shadow:
            host = self.hosts.get((node, group))
            if host is not None and host.term is not None:
                term = host.term
                host.node.call(lambda _, term=term: term.transactions.look())  # type: ignore[misc]

    def leading(self, group: GroupId) -> QueueTerm | None:
        """The term that serves at the moment, for the checkers."""
        terms = [host.term for (_, number), host in self.hosts.items() if number == group and host.term is not None]
        return max(terms, key=lambda term: term.term, default=None)
