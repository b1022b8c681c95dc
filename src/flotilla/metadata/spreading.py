"""Plans for existing partitions: pure functions from the present replicas to the next ones.

    rebalance  the fewest moves after which no broker holds two replicas more than another, nor leads two more
    vacate     moves all replicas of one broker, and no others
    resize     more replicas of a partition, or fewer
    fill       more replicas of all partitions that have fewer than they should

None of them makes replicas share a machine or a zone that need not (`placement`); rebalancing also separates those that
do. That comes before even shares: brokers of a small zone may hold more than others.

A replica that moves is replaced in its place, so that a partition keeps a preferred leader that stays. Ties go to the
lower id, of groups and of nodes: every planner computes the same plan. Why the first plan is the shortest: of two
brokers the one with more replicas always has a partition that the other has not, so each move takes one replica from a
broker above its share straight to one below its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from flotilla.metadata.placement import APART, NO_SITES, Load, Sharing, Sites, crowding, sharing, spread
from flotilla.types.ids import GroupId, NodeId

Replicas: TypeAlias = tuple[NodeId, ...]

_IDLE = Load()

#: The replicas of each partition, the preferred leader first.
_Places: TypeAlias = dict[GroupId, list[NodeId]]
#: The partitions of each broker.
_Held: TypeAlias = Mapping[NodeId, dict[GroupId, None]]


@dataclass(frozen=True, slots=True)
class Placed:
    """One partition: its replicas, and how many it should have."""

    group: GroupId
    replicas: Replicas
    width: int


def rebalance(
    partitions: Sequence[Placed], brokers: Sequence[NodeId], sites: Sites = NO_SITES
) -> dict[GroupId, Replicas]:
    """The changed replicas, by group. Replicas on nodes other than `brokers` stay."""
    nodes = sorted(set(brokers))
    assert nodes, "no broker can hold the replicas"
    places: _Places = {
        placed.group: list(placed.replicas) for placed in sorted(partitions, key=lambda placed: placed.group)
    }
    held: _Held = {node: {} for node in nodes}
    for group, replicas in places.items():
        for node in replicas:
            if node in held:
                held[node][group] = None
    for placed in partitions:
        _widen(placed, places[placed.group], held, sites)
    if sharing({*nodes, *[node for replicas in places.values() for node in replicas]}, sites) == APART:
        _even_out_replicas(places, held)
    else:
        _separate(places, held, sites)
        _even_out_apart(places, held, sites)
    _even_out_leaders(places, nodes)
    before = {placed.group: placed.replicas for placed in partitions}
    return {group: tuple(after) for group, after in places.items() if tuple(after) != before[group]}


def _widen(placed: Placed, replicas: list[NodeId], held: _Held, sites: Sites) -> None:
    """Adds missing replicas of a partition on the brokers with the fewest."""
    if len(replicas) >= placed.width:
        return
    free = sorted([node for node in held if node not in replicas], key=lambda node: len(held[node]))
    for chosen in spread(free, placed.width - len(replicas), sites, replicas):
        replicas.append(chosen)
        held[chosen][placed.group] = None


def _even_out_replicas(places: _Places, held: _Held) -> None:
    share, rest = divmod(sum(len(groups) for groups in held.values()), len(held))
    # Where shares are uneven, the brokers with the most replicas keep one more: that moves the least.
    fullest = sorted(held, key=lambda node: -len(held[node]))
    shares = {node: share + (place < rest) for place, node in enumerate(fullest)}
    for giver in fullest:
        for taker in reversed(fullest):
            count = min(len(held[giver]) - shares[giver], shares[taker] - len(held[taker]))
            if count > 0:
                _give(giver, taker, count, places, held)


def _give(giver: NodeId, taker: NodeId, count: int, places: _Places, held: _Held) -> None:
    movable = [group for group in _givable(giver, places, held) if group not in held[taker]]
    assert len(movable) >= count, "the broker with more replicas has one that the other has not"
    for group in movable[:count]:
        _move(group, giver, taker, places, held)


def _givable(giver: NodeId, places: _Places, held: _Held) -> list[GroupId]:
    """Replicas that are not preferred leaders move first: so leadership stays."""
    return sorted(held[giver], key=lambda group: (places[group][0] == giver, group))


def _move(group: GroupId, giver: NodeId, taker: NodeId, places: _Places, held: _Held) -> None:
    places[group] = _swapped(places[group], giver, taker)
    del held[giver][group]
    held[taker][group] = None


def _swapped(replicas: list[NodeId], giver: NodeId, taker: NodeId) -> list[NodeId]:
    return [taker if node == giver else node for node in replicas]


def _separate(places: _Places, held: _Held, sites: Sites) -> None:
    """Moves replicas until none shares a machine or a zone that need not.

    Always the move after which the fewest share: as machines and zones form a tree, that takes the fewest moves, and a
    partition that no single move makes better is as good as it can be.
    """
    known: dict[tuple[Replicas, int], Sharing] = {}
    for group, replicas in places.items():
        outside = tuple([node for node in replicas if node not in held])
        kind = outside, len(replicas)
        if kind not in known:
            known[kind] = sharing(spread([*held, *outside], len(replicas), sites), sites)
        while sharing(places[group], sites) > known[kind]:
            swap = _best_swap(places[group], held, sites)
            if swap is None:
                break
            _move(group, *swap, places, held)


def _best_swap(replicas: list[NodeId], held: _Held, sites: Sites) -> tuple[NodeId, NodeId] | None:
    """The replica to move and where to; None: nothing makes it better."""
    swaps = [
        (
            sharing(_swapped(replicas, giver, taker), sites),
            giver == replicas[0],  # The preferred leader stays if it can.
            len(held[taker]) - len(held[giver]),
            giver,
            taker,
        )
        for giver in replicas
        if giver in held
        for taker in held
        if taker not in replicas
    ]
    best = min(swaps, default=None)
    return best[-2:] if best is not None and best[0] < sharing(replicas, sites) else None


def _even_out_apart(places: _Places, held: _Held, sites: Sites) -> None:
    """Moves replicas to brokers that hold at least two fewer, unless more would share a machine or a zone.

    Each move lessens the differences, so there is a last one.
    """
    is_moving = True
    while is_moving:
        is_moving = False
        for giver in sorted(held, key=lambda node: -len(held[node])):
            for taker in sorted(held, key=lambda node: len(held[node])):
                if len(held[giver]) < len(held[taker]) + 2:
                    break
                is_moving = _give_apart(giver, taker, places, held, sites) or is_moving


def _give_apart(giver: NodeId, taker: NodeId, places: _Places, held: _Held, sites: Sites) -> bool:
    """Moves what may move until the two differ by less than two; whether anything did."""
    has_moved = False
    for group in _givable(giver, places, held):
        if len(held[giver]) < len(held[taker]) + 2:
            break
        after = _swapped(places[group], giver, taker)
        if group not in held[taker] and sharing(after, sites) <= sharing(places[group], sites):
            _move(group, giver, taker, places, held)
            has_moved = True
    return has_moved


def _even_out_leaders(places: _Places, nodes: Sequence[NodeId]) -> None:
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


def _way_down(giver: NodeId, places: _Places, led: _Held) -> list[tuple[GroupId, NodeId]] | None:
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
    partitions: Sequence[Placed],
    node: NodeId,
    brokers: Sequence[NodeId],
    load: Mapping[NodeId, Load],
    sites: Sites = NO_SITES,
) -> dict[GroupId, Replicas]:
    """New replicas for the partitions of `node`. One that is missing has no place: all other brokers hold it."""
    others = sorted(set(brokers) - {node})
    counts = {other: load.get(other, _IDLE).replicas for other in others}
    plan: dict[GroupId, Replicas] = {}
    for placed in partitions:
        if node not in placed.replicas:
            continue
        kept = tuple([other for other in placed.replicas if other != node])
        free = sorted([other for other in others if other not in kept], key=counts.__getitem__)
        if len(placed.replicas) > max(placed.width, 1):
            plan[placed.group] = kept
        elif free:
            (chosen,) = spread(free, 1, sites, kept)
            counts[chosen] += 1
            # The new replica is the last choice as leader: it must fetch everything first.
            plan[placed.group] = (*kept, chosen)
    return plan


def resize(placed: Placed, brokers: Sequence[NodeId], load: Mapping[NodeId, Load], sites: Sites = NO_SITES) -> Replicas:
    """`width` replicas, or as many as there are brokers. The preferred leader stays."""
    replicas = list(placed.replicas)
    free = sorted(set(brokers) - set(replicas), key=lambda node: (load.get(node, _IDLE).replicas, node))
    replicas += spread(free, placed.width - len(replicas), sites, placed.replicas)

    def is_first_to_go(node: NodeId) -> tuple[bool, Sharing, int, NodeId]:
        return node not in brokers, crowding(node, replicas, sites), load.get(node, _IDLE).replicas, node

    while len(replicas) > placed.width:
        # First replicas on brokers that leave, then where they share the most, then on brokers with the most.
        replicas.remove(max(replicas[1:], key=is_first_to_go))
    return tuple(replicas)


def fill(
    partitions: Sequence[Placed], brokers: Sequence[NodeId], load: Mapping[NodeId, Load], sites: Sites = NO_SITES
) -> dict[GroupId, Replicas]:
    """New replicas for partitions that have fewer than they should, as far as there are brokers for them."""
    loads = dict(load)
    plan: dict[GroupId, Replicas] = {}
    for placed in partitions:
        replicas = resize(placed, brokers, loads, sites) if len(placed.replicas) < placed.width else placed.replicas
        if replicas != placed.replicas:
            plan[placed.group] = replicas
            for node in replicas[len(placed.replicas) :]:
                loads[node] = loads.get(node, _IDLE).plus_replica()
    return plan
