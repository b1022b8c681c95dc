"""Simple and joint membership changes as others carried them out, to the letter.

The scripts also show what a leader tracks of each member. A member's record begins when it joins
and lasts until it is no member any more, so the first index it would be sent (`next`) shows when
that was: `last_index` grows by one with every directive.
"""

from dataclasses import dataclass, field
from pathlib import Path

from flotilla.raft.membership import ADD_LEARNER, ADD_VOTER, REMOVE, Change, enter_joint, leave_joint, simple
from flotilla.raft.messages import Configuration
from flotilla.types.errors import ConfigurationChangeError
from flotilla.types.ids import Index, NodeId
from tests.oracle.datadriven import Directive, parametrize, parse

KINDS = {"v": ADD_VOTER, "l": ADD_LEARNER, "r": REMOVE}


@parametrize("confchange")
def test_confchange_script(path: Path) -> None:
    cluster = Tracked()
    for directive in parse(path):
        assert cluster.run(directive) == directive.expected, directive.where


@dataclass(slots=True)
class Tracked:
    """A configuration and the first index each member would be sent."""

    configuration: Configuration = field(default_factory=Configuration)
    next_index: dict[NodeId, Index] = field(default_factory=dict)
    last_index: Index = 0

    def run(self, directive: Directive) -> str:
        try:
            self.configuration = self._changed(directive)
        except ConfigurationChangeError as error:
            return str(error)
        finally:
            members = self.configuration.members()
            self.next_index = {node: self.next_index.get(node, max(self.last_index, 1)) for node in members}
            self.last_index += 1
        return "\n".join([describe(self.configuration), *self._progress_lines()])

    def _changed(self, directive: Directive) -> Configuration:
        changes = parse_changes(directive.input)
        match directive.command:
            case "simple":
                return simple(self.configuration, changes)
            case "enter-joint":
                return enter_joint(self.configuration, changes, auto_leave=directive.flag("autoleave"))
            case "leave-joint":
                assert not changes
                return leave_joint(self.configuration)
        raise AssertionError(f"{directive.where}: unknown command {directive.command}")

    def _progress_lines(self) -> list[str]:
        return [
            f"{node}: StateProbe match=0 next={next_index}" + " learner" * (node in self.configuration.learners)
            for node, next_index in self.next_index.items()
        ]


def parse_changes(text: str) -> tuple[Change, ...]:
    """`v1 l2 r3`. Updates (`u1`) carry data past the consensus core; ours has no such kind, so they change nothing."""
    return tuple(Change(KINDS[word[0]], int(word[1:])) for word in text.split() if word[0] != "u")


def describe(configuration: Configuration) -> str:
    parts = [f"voters={listed(configuration.voters)}"]
    if configuration.is_joint:
        parts[0] += f"&&{listed(configuration.outgoing)}"
    if configuration.learners:
        parts.append(f"learners={listed(configuration.learners)}")
    if configuration.learners_next:
        parts.append(f"learners_next={listed(configuration.learners_next)}")
    if configuration.auto_leave:
        parts.append("autoleave")
    return " ".join(parts)


def listed(nodes: tuple[NodeId, ...]) -> str:
    return f"({' '.join(map(str, nodes))})"
