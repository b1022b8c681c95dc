"""Plans for existing partitions: pure functions from the present replicas to the next ones.

    rebalance  the fewest moves after which no broker holds two replicas more than another, nor leads two more
    vacate     moves all replicas of one broker, and no others
    resize     more replicas of a partition, or fewer
    fill       more replicas of all partitions that have fewer than they should

A replica that moves is replaced in its place, so that a partition keeps a preferred leader that stays. Ties go to the
lower id, of groups and of nodes: every planner computes the same plan. Why the first plan is the shortest: of two
brokers the one with more replicas always has a partition that the other has not, so each move takes one replica from a
broker above its share straight to one below its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from flotilla.metadata.placement import Load
from flotilla.types.ids import GroupId, NodeId

Replicas: TypeAlias = tuple[NodeId, ...]

_IDLE = Load()


@dataclass(frozen=True, slots=True)
class Placed:
    """One partition: its replicas, and how many it should have."""

    group: GroupId
    replicas: Replicas
    width: int


def rebalance(partitions: Sequence[Placed], brokers: Sequence[NodeId]) -> dict[GroupId, Replicas]:
    """The changed replicas, by group. Replicas on nodes other than `brokers` stay."""
    nodes = sorted(set(brokers))
    assert nodes, "no broker can hold the replicas"
    places = {placed.group: list(placed.replicas) for placed in sorted(partitions, key=lambda placed: placed.group)}
    held: dict[NodeId, dict[GroupId, None]] = {node: {} for node in nodes}
    for group, replicas in places.items():
        for node in replicas:
            if node in held:
                held[node][group] = None
    for placed in partitions:
        _widen(placed, places[placed.group], held)
    _even_out_replicas(places, held)
    _even_out_leaders(places, nodes)
    before = {placed.group: placed.replicas for placed in partitions}
    return {group: tuple(after) for group, after in places.items() if tuple(after) != before[group]}


def _widen(placed: Placed, replicas: list[NodeId], held: Mapping[NodeId, dict[GroupId, None]]) -> None:
    """Adds missing replicas of a partition on the brokers with the fewest."""
    while len(replicas) < placed.width:
        free = [node for node in held if node not in replicas]
        if not free:
            return
        chosen = min(free, key=lambda node: len(held[node]))
        replicas.append(chosen)
        held[chosen][placed.group] = None


def _even_out_replicas(places: Mapping[GroupId, list[NodeId]], held: Mapping[NodeId, dict[GroupId, None]]) -> None:
    share, rest = divmod(sum(len(groups) for groups in held.values()), len(held))
    # Where shares are uneven, the brokers with the most replicas keep one more: that moves the least.
    fullest = sorted(held, key=lambda node: -len(held[node]))
    shares = {node: share + (place < rest) for place, node in enumerate(fullest)}
    for giver in fullest:
        for taker in reversed(fullest):
            count = min(len(held[giver]) - shares[giver], shares[taker] - len(held[taker]))
            if count > 0:
                _give(giver, taker, count, places, held)


def _give(
    giver: NodeId,
    taker: NodeId,
    count: int,
    places: Mapping[GroupId, list[NodeId]],
    held: Mapping[NodeId, dict[GroupId, None]],
) -> None:
    movable = [group for group in held[giver] if group not in held[taker]]
    assert len(movable) >= count, "the broker with more replicas has one that the other has not"
    # Replicas that are not preferred leaders move first: so leadership stays.
    movable.sort(key=lambda group: (places[group][0] == giver, group))
    for group in movable[:count]:
        replicas = places[group]
        replicas[replicas.index(giver)] = taker
        del held[giver][group]
        held[taker][group] = None


def _even_out_leaders(places: Mapping[GroupId, list[NodeId]], nodes: Sequence[NodeId]) -> None:
    """Reorders replicas, which moves no data, until no broker leads two more than one that could lead them."""
    led: dict[NodeId, dict[GroupId, None]] = {node: {} for node in nodes}
    for group, replicas in places.items():
        if replicas[0] in led:
            led[replicas[0]][group] = None
    for giver in sorted(led, key=lambda node: -len(led[node])):
        while (path := _way_down(giver, places, led)) is not None:
            for group, heir in path:
                replicas = places[group]
                del led[replicas[0]][group]
                led[heir][group] = None
                at = replicas.index(heir)
                replicas[0], replicas[at] = heir, replicas[0]


def _way_down(
    giver: NodeId, places: Mapping[GroupId, list[NodeId]], led: Mapping[NodeId, dict[GroupId, None]]
) -> list[tuple[GroupId, NodeId]] | None:
    """The shortest chain of hand-overs from `giver` to a broker that leads at least two fewer; None: there is none."""
    ways: dict[NodeId, list[tuple[GroupId, NodeId]]] = {giver: []}
    frontier = [giver]
    while frontier:
        reached: list[NodeId] = []
        for node in frontier:
            for group in led[node]:
                for heir in places[group][1:]:
                    if heir in led and heir not in ways:
                        ways[heir] = [*ways[node], (group, heir)]
                        if len(led[heir]) + 1 < len(led[giver]):
                            return ways[heir]
                        reached.append(heir)
        frontier = reached
    return None


def vacate(
    partitions: Sequence[Placed], node: NodeId, brokers: Sequence[NodeId], load: Mapping[NodeId, Load]
) -> dict[GroupId, Replicas]:
    """New replicas for the partitions of `node`. One that is missing has no place: all other brokers hold it."""
    others = sorted(set(brokers) - {node})
    counts = {other: load.get(other, _IDLE).replicas for other in others}
    plan: dict[GroupId, Replicas] = {}
    for placed in partitions:
        if node not in placed.replicas:
            continue
        free = [other for other in others if other not in placed.replicas]
        if len(placed.replicas) > max(placed.width, 1):
            plan[placed.group] = tuple(other for other in placed.replicas if other != node)
        elif free:
            chosen = min(free, key=counts.__getitem__)
            counts[chosen] += 1
            # The new replica is the last choice as leader: it must fetch everything first.
            plan[placed.group] = (*(other for other in placed.replicas if other != node), chosen)
    return plan


def resize(placed: Placed, brokers: Sequence[NodeId], load: Mapping[NodeId, Load]) -> Replicas:
    """`width` replicas, or as many as there are brokers. The preferred leader stays."""
    replicas = list(placed.replicas)
    free = sorted(set(brokers) - set(replicas), key=lambda node: (load.get(node, _IDLE).replicas, node))
    replicas += free[: max(0, placed.width - len(replicas))]
    while len(replicas) > placed.width:
        # First replicas on brokers that leave, then on those with the most.
        replicas.remove(max(replicas[1:], key=lambda node: (node not in brokers, load.get(node, _IDLE).replicas, node)))
    return tuple(replicas)


def fill(
    partitions: Sequence[Placed], brokers: Sequence[NodeId], load: Mapping[NodeId, Load]
) -> dict[GroupId, Replicas]:
    """New replicas for partitions that have fewer than they should, as far as there are brokers for them."""
    loads = dict(load)
    plan: dict[GroupId, Replicas] = {}
    for placed in partitions:
        replicas = resize(placed, brokers, loads) if len(placed.replicas) < placed.width else placed.replicas
        if replicas != placed.replicas:
            plan[placed.group] = replicas
            for node in replicas[len(placed.replicas) :]:
                loads[node] = loads.get(node, _IDLE).plus_replica()
    return plan
