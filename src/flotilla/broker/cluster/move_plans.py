"""Plans of moves at the metadata's leader. Draining brokers are emptied and missing replicas are added automatically.

Rebalancing happens on request.

A plan is a command like any other (metadata/move_commands), so it survives a change of leaders; the leaders of the
partitions carry it out (moves). Only reachable brokers receive replicas: a plan for a dead node would wait for ever. A
broker that has not removed earlier data of a partition yet gets it in a later plan.
"""

from collections.abc import Iterable, Mapping

from flotilla.broker.catalog import Catalog
from flotilla.broker.ports import Done, Outside
from flotilla.metadata.commands import SetBrokerState
from flotilla.metadata.move_commands import PlanMoves
from flotilla.metadata.move_rules import may_receive
from flotilla.metadata.spreading import Placed, fill, rebalance, vacate
from flotilla.metadata.values import ACTIVE, DRAINING, Partition, Topic
from flotilla.types.errors import ConfigurationChangeError, FlotillaError
from flotilla.types.ids import GroupId, NodeId
from flotilla.types.operations import Done as DoneReply
from flotilla.types.operations.cluster import CancelMoves, DrainNode, MovesPlanned, PlannedMove, Rebalance


class MovePlans:
    def __init__(self, catalog: Catalog, outside: Outside) -> None:
        self._catalog = catalog
        self._outside = outside
        self._is_planning = False

    # Automatic.

    def check(self) -> None:
        """Plans moves away from brokers that drain or leave, then replicas that partitions lack."""
        if self._is_planning:
            return
        brokers = sorted(self._catalog.machine.state.brokers.items())
        plans = (self._vacating(node) for node, broker in brokers if broker.state != ACTIVE)
        plan = next(filter(None, map(self._allowed, plans)), None) or self._allowed(self._filling())
        if plan:
            self._is_planning = True
            try:
                self._catalog.propose(self._command(plan), self._planned)
            except FlotillaError:
                self._is_planning = False  # Another node leads by now, and plans.

    def _planned(self, _: object) -> None:
        self._is_planning = False

    def _vacating(self, node: NodeId) -> dict[GroupId, tuple[NodeId, ...]]:
        state = self._catalog.machine.state
        placed = [_placed(state.topics[found.topic_id], found.place) for found in state.assignments_to(node).values()]
        takers = self._takers()
        return vacate(placed, node, takers, {taker: state.load(taker) for taker in takers}, state.sites())

    def _filling(self) -> dict[GroupId, tuple[NodeId, ...]]:
        state = self._catalog.machine.state
        takers = self._takers()
        lacking = [
            _placed(topic, place)
            for topic in self._catalog.topics()
            for place in topic.partitions
            if place.move is None
            and len(place.replicas) < topic.replication_factor
            # Nobody else can have one: nothing to plan, however many there are.
            and not all(taker in place.replicas for taker in takers)
        ]
        return fill(lacking, takers, {taker: state.load(taker) for taker in takers}, state.sites())

    def _takers(self) -> list[NodeId]:
        """Brokers that may receive replicas."""
        brokers = sorted(self._catalog.brokers().items())
        return [node for node, broker in brokers if broker.state == ACTIVE and self._outside.is_up(node)]

    def _allowed(self, plan: Mapping[GroupId, tuple[NodeId, ...]]) -> dict[GroupId, tuple[NodeId, ...]]:
        state = self._catalog.machine.state
        return {
            group: target for group, target in plan.items() if all(may_receive(state, group, node) for node in target)
        }

    # On request.

    def check_vacatable(self, node: NodeId) -> None:
        """Raises ConfigurationChangeError when the other brokers cannot take the node's replicas."""
        state = self._catalog.machine.state
        plan = self._vacating(node)
        for group, found in state.assignments_to(node).items():
            place = found.place
            if node in place.wanted and group not in plan:
                others = len([taker for taker in self._takers() if taker != node])
                raise ConfigurationChangeError(
                    f"broker {node} cannot be emptied: partition {place.number} of topic "
                    f"{state.topics[found.topic_id].name} has {len(place.wanted)} replicas, and {others} other "
                    "brokers can take them; add a broker or lower the topic's replication factor"
                )

    def drain_node(self, request: DrainNode, done: Done) -> None:
        self._catalog.leading()
        if request.is_draining:
            self.check_vacatable(request.node)
        state = DRAINING if request.is_draining else ACTIVE
        command = SetBrokerState(request.node, state, self._outside.now_ms())

        def answered(result: object) -> None:
            done(self._catalog.explain(result) if isinstance(result, FlotillaError) else DoneReply())

        self._catalog.propose(command, answered)

    def rebalance(self, request: Rebalance, done: Done) -> None:
        self._catalog.leading()
        takers = self._takers()
        placed = [_placed(topic, place) for topic in self._topics(request.topics) for place in topic.partitions]
        sites = self._catalog.machine.state.sites()
        plan = self._allowed(rebalance(placed, takers, sites)) if takers else {}
        self._begin(plan, done, is_dry_run=request.is_dry_run)

    def cancel_moves(self, request: CancelMoves, done: Done) -> None:
        self._catalog.leading()
        places = [place for topic in self._topics(request.topics) for place in topic.partitions]
        plan = {place.group: place.replicas for place in places if place.wanted != place.replicas}
        self._begin(plan, done, is_dry_run=False)

    def _topics(self, names: Iterable[str]) -> list[Topic]:
        return [self._catalog.topic(name) for name in dict.fromkeys(names)] or self._catalog.topics()

    def _begin(self, plan: Mapping[GroupId, tuple[NodeId, ...]], done: Done, *, is_dry_run: bool) -> None:
        reply = MovesPlanned([self._described(group, target) for group, target in plan.items()])
        if is_dry_run or not plan:
            done(reply)
            return

        def answered(result: object) -> None:
            done(self._catalog.explain(result) if isinstance(result, FlotillaError) else reply)

        self._catalog.propose(self._command(plan), answered)

    def _described(self, group: GroupId, target: tuple[NodeId, ...]) -> PlannedMove:
        state = self._catalog.machine.state
        found = state.assignments[group]
        return PlannedMove(state.topics[found.topic_id].name, found.partition, list(found.place.wanted), list(target))

    def _command(self, plan: Mapping[GroupId, tuple[NodeId, ...]]) -> PlanMoves:
        return PlanMoves(tuple(plan.items()), self._outside.now_ms())


def _placed(topic: Topic, place: Partition) -> Placed:
    return Placed(place.group, place.wanted, topic.replication_factor)
