"""Changes of membership, as pure functions from one configuration to the next.

A leader calls `apply_change` before it proposes, and the CONFIG entry carries the result: a change that
was accepted here can no longer fail on any replica.

    simple        at most one voter comes or goes; old and new majorities overlap (thesis, section 4.1)
    enter_joint   any number; the old voters stay on as `outgoing` until leave_joint (paper, section 6)
    leave_joint   drops the outgoing half; its voters in `learners_next` become learners

Invariants of every configuration returned here: each tuple is in ascending order without
repetition; there is a voter; learners are disjoint from both halves; learners_next lies within
outgoing and outside of voters and learners; learners_next and auto_leave are empty unless joint.

Adding a member and removing a non-member are no errors, so that a change can be retried safely.
Changes are carried out in their order; the last one for a node decides.
"""

from dataclasses import dataclass

from flotilla.raft.messages import Configuration
from flotilla.types.errors import ConfigurationChangeError
from flotilla.types.ids import NO_NODE, NodeId

#: What happens to a node. ADD_VOTER promotes a learner, ADD_LEARNER demotes a voter.
ADD_VOTER = 1
ADD_LEARNER = 2
REMOVE = 3

#: How to reach the new configuration. AUTO: directly when there is one change, else as IMPLICIT.
AUTO = 0
#: Through a joint phase that ends by itself.
IMPLICIT = 1
#: Through a joint phase that lasts until a change proposes to leave it.
EXPLICIT = 2

#: Bounds the size of a CONFIG entry.
CHANGES_MAX = 1024

_NODE_MAX: NodeId = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Change:
    """One node to add, demote or remove. NO_NODE is permitted and changes nothing."""

    kind: int
    node: NodeId


@dataclass(frozen=True, slots=True)
class ConfigurationChange:
    """A request to a leader. Without changes: leave the joint phase."""

    changes: tuple[Change, ...] = ()
    transition: int = AUTO

    @property
    def is_leave(self) -> bool:
        return not self.changes

    @property
    def is_joint(self) -> bool:
        """Whether carrying it out enters a joint phase."""
        return bool(self.changes) and (self.transition != AUTO or len(self.changes) > 1)


def apply_change(configuration: Configuration, change: ConfigurationChange) -> Configuration:
    """The configuration after the change. Raises ConfigurationChangeError when it is not possible from here."""
    if change.transition not in (AUTO, IMPLICIT, EXPLICIT):
        raise ConfigurationChangeError(f"unknown transition {change.transition}")
    if change.is_leave:
        return leave_joint(configuration)
    if change.is_joint:
        return enter_joint(configuration, change.changes, auto_leave=change.transition != EXPLICIT)
    return simple(configuration, change.changes)


def simple(configuration: Configuration, changes: tuple[Change, ...]) -> Configuration:
    """Changes at most one voter, and any number of learners, in one step."""
    if configuration.is_joint:
        raise ConfigurationChangeError("can't apply simple config change in joint config")
    voters, learners, _ = _carry_out(configuration, (), changes)
    if len(voters.symmetric_difference(configuration.voters)) > 1:
        raise ConfigurationChangeError("more than one voter changed without entering joint config")
    return _checked(Configuration(voters=_ascending(voters), learners=_ascending(learners)))


def enter_joint(configuration: Configuration, changes: tuple[Change, ...], auto_leave: bool) -> Configuration:
    """Carries out all changes on the incoming half; the present voters become the outgoing half."""
    if configuration.is_joint:
        raise ConfigurationChangeError("config is already joint")
    if not configuration.voters:
        raise ConfigurationChangeError("can't make a zero-voter config joint")
    outgoing = configuration.voters
    voters, learners, learners_next = _carry_out(configuration, outgoing, changes)
    return _checked(
        Configuration(
            voters=_ascending(voters),
            outgoing=outgoing,
            learners=_ascending(learners),
            learners_next=_ascending(learners_next),
            auto_leave=auto_leave,
        )
    )


def leave_joint(configuration: Configuration) -> Configuration:
    """Drops the outgoing half. Its nodes without another role are no members any more."""
    if not configuration.is_joint:
        raise ConfigurationChangeError("can't leave a non-joint config")
    learners = {*configuration.learners, *configuration.learners_next}
    return _checked(Configuration(voters=configuration.voters, learners=_ascending(learners)))


def _carry_out(
    configuration: Configuration, outgoing: tuple[NodeId, ...], changes: tuple[Change, ...]
) -> tuple[set[NodeId], set[NodeId], set[NodeId]]:
    """The voters, learners and learners_next after all changes in their order."""
    if len(changes) > CHANGES_MAX:
        raise ConfigurationChangeError(f"more than {CHANGES_MAX} changes at once")
    voters = set(configuration.voters)
    learners = set(configuration.learners)
    learners_next = set(configuration.learners_next)
    for change in changes:
        node = change.node
        if not 0 <= node <= _NODE_MAX:
            raise ConfigurationChangeError(f"node id {node} is out of range")
        if change.kind not in (ADD_VOTER, ADD_LEARNER, REMOVE):
            raise ConfigurationChangeError(f"unknown kind of change {change.kind}")
        if node == NO_NODE:
            continue
        voters.discard(node)
        learners.discard(node)
        learners_next.discard(node)
        if change.kind == ADD_VOTER:
            voters.add(node)
        elif change.kind == ADD_LEARNER:
            # A voter of the outgoing half still counts there, and no node is voter and learner at once:
            # it waits in learners_next until that half is gone.
            (learners_next if node in outgoing else learners).add(node)
    if not voters:
        raise ConfigurationChangeError("removed all voters")
    return voters, learners, learners_next


def _ascending(nodes: set[NodeId]) -> tuple[NodeId, ...]:
    return tuple(sorted(nodes))


def _checked(configuration: Configuration) -> Configuration:
    voters = set(configuration.voters)
    outgoing = set(configuration.outgoing)
    learners = set(configuration.learners)
    learners_next = set(configuration.learners_next)
    assert voters
    assert learners.isdisjoint(voters)
    assert learners.isdisjoint(outgoing)
    assert learners_next <= outgoing
    assert learners_next.isdisjoint(voters)
    assert learners_next.isdisjoint(learners)
    assert outgoing or not configuration.auto_leave
    return configuration
