"""Voters whom a leader need not hurry to: while little is under way, entries go at once only to those a quorum needs.

An entry that travels alone costs each replica the same, and whoever proposed it waits for the quickest ones only. What
is kept back for a spare reaches it with many others in one message, and so in one write: with the next tick at the
latest, and sooner if the driver finds that a quorum takes its time. What is promised does not change, since a quorum
has every committed entry on disk as before: to be a spare is nothing else than to have a slow link for a while.
"""

from flotilla.raft import quorum
from flotilla.raft.progress import REPLICATE, Progress
from flotilla.raft.state import RaftState
from flotilla.types.ids import Index, NodeId

#: So many entries do not wait for more.
ENTRIES_MAX = 32


def may_wait(node: RaftState, progress: Progress, last: Index) -> bool:
    """Whether a spare may have what it lacks a little later: it is little, and no tick has come since."""
    return (
        node.news_ticks == 0
        and last - progress.next < ENTRIES_MAX
        and node.uncommitted_bytes <= node.options.thrifty_bytes_max
    )


def choose(node: RaftState) -> frozenset[NodeId]:
    """Those without whom there is a quorum: whoever is behind the others, else who would be the last to stand.

    With every tick: one that fell silent is behind by then, because the spare was sent in its place what it owes, and
    the two change places. A link that breaks is known at once, and then nobody is spared; nor is anybody as long as the
    others commit without the leader, because its own disk is the slow one.
    """
    configuration = node.configuration
    if not node.options.thrifty_bytes_max or configuration.is_joint:
        return frozenset()
    progress = node.progress
    if node.id not in configuration.voters or progress[node.id].match < node.log.committed:
        return frozenset()
    others = configuration.successors(node.id)
    needed = quorum.majority_size(configuration.voters) - 1
    sound = [voter for voter in others if progress[voter].state == REPLICATE]
    if len(sound) < needed:
        return frozenset()
    quickest = sorted(sound, key=lambda voter: -progress[voter].match)[:needed]
    return frozenset(others).difference(quickest)
