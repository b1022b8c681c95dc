"""The heirs of a node that stops: who leads its groups afterwards.

Each group goes to the node that leads fewest by then. In a rolling restart that is the node that came back last and
leads nothing: it takes what the next one gives up. Spread over all, a part would go to nodes that are still to be
restarted, and move once more.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from flotilla.types.ids import GroupId, NodeId


def spread_heirs(leaders: Iterable[NodeId], heirs: Mapping[GroupId, Sequence[NodeId]]) -> dict[GroupId, NodeId]:
    """One heir for each group that has any, out of `heirs`; the first one of those that lead as few.

    `leaders` are those of all groups, as far as they are known.
    """
    counts = Counter(leaders)
    chosen: dict[GroupId, NodeId] = {}
    for group, candidates in heirs.items():
        if candidates:
            chosen[group] = min(candidates, key=counts.__getitem__)
            counts[chosen[group]] += 1
    return chosen
