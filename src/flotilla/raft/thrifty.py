"""Thrifty replication: while little is in flight, entries go at once only to the voters that a quorum needs.

A single entry costs each replica a message and a write, but its proposer waits for the fastest quorum only. The other
voters lag: they get the entry together with later ones, in one message and one write. That happens with the next tick
at the latest, and sooner if the driver finds that the quorum takes too long. Safety does not change, since a quorum
has every committed entry on disk as before: a lagging voter is like one with a slow link.
"""

from flotilla.raft import quorum
from flotilla.raft.progress import REPLICATE, Progress
from flotilla.raft.state import RaftState
from flotilla.types.ids import Index, NodeId

#: A batch of this size amortises its write; waiting for more would only delay it.
ENTRIES_MAX = 32


def may_wait(node: RaftState, progress: Progress, last: Index) -> bool:
    """Whether a lagging voter may get its entries later: they are few, and no tick has come since."""
    return (
        node.news_ticks == 0
        and last - progress.next < ENTRIES_MAX
        and node.uncommitted_bytes <= node.options.thrifty_bytes_max
    )


def choose_lagging(node: RaftState) -> frozenset[NodeId]:
    """The voters that no quorum needs: those behind the others, else those that would be the last to stand.

    Called with every tick. A voter that fell silent is behind by then, because the lagging voter got its entries
    instead: the two change places. After a broken link no voter lags; nor does one while the others commit without
    the leader, whose own disk is the slow one.
    """
    configuration = node.configuration
    if not node.options.thrifty_bytes_max or configuration.is_joint:
        return frozenset()
    progress = node.progress
    if node.id not in configuration.voters or progress[node.id].match < node.log.committed:
        return frozenset()
    others = configuration.successors(node.id, node.options.succession_turn)
    needed = quorum.majority_size(configuration.voters) - 1
    sound = [voter for voter in others if progress[voter].state == REPLICATE]
    if len(sound) < needed:
        return frozenset()
    quickest = sorted(sound, key=lambda voter: -progress[voter].match)[:needed]
    return frozenset(others).difference(quickest)
