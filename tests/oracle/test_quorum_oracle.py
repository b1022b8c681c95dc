"""Committed indexes and vote results as others computed them, to the letter."""

from pathlib import Path

from flotilla.raft.messages import Configuration
from flotilla.raft.quorum import EVERYTHING, LOST, PENDING, WON, committed_index, vote_result
from flotilla.types.ids import Index, NodeId
from tests.oracle.datadriven import Directive, parametrize, parse

RESULT_NAMES = {PENDING: "VotePending", LOST: "VoteLost", WON: "VoteWon"}


@parametrize("quorum")
def test_quorum_script(path: Path) -> None:
    for directive in parse(path):
        assert run(directive) == directive.expected, directive.where


def run(directive: Directive) -> str:
    voters = tuple(directive.numbers("cfg"))
    outgoing = () if directive.text("cfgj") == "zero" else tuple(directive.numbers("cfgj"))
    configuration = Configuration(voters=voters, outgoing=outgoing)
    members = list(dict.fromkeys((*voters, *outgoing)))
    if directive.command == "committed":
        return run_committed(configuration, zip(members, directive.named.get("idx", []), strict=True))
    assert directive.command == "vote", f"{directive.where}: unknown command {directive.command}"
    return run_vote(configuration, zip(members, directive.named.get("votes", []), strict=True))


def run_committed(configuration: Configuration, words: "zip[tuple[NodeId, str]]") -> str:
    match = {node: int(word) for node, word in words if word != "_"}
    index = committed_index(configuration, match)
    assert index == committed_index(swapped(configuration), match), "the halves are not equal in rights"
    return describe(configuration, match) + ("∞" if index == EVERYTHING else str(index))


def run_vote(configuration: Configuration, words: "zip[tuple[NodeId, str]]") -> str:
    votes = {node: word == "y" for node, word in words if word != "_"}
    result = vote_result(configuration, votes)
    assert result == vote_result(swapped(configuration), votes), "the halves are not equal in rights"
    return RESULT_NAMES[result]


def swapped(configuration: Configuration) -> Configuration:
    return Configuration(voters=configuration.outgoing, outgoing=configuration.voters)


def describe(configuration: Configuration, match: dict[NodeId, Index]) -> str:
    """A bar per voter, as long as the number of voters it is strictly ahead of."""
    members = configuration.members()
    if not members:
        return "<empty majority quorum>"
    count = len(members)
    known = {node: match.get(node, 0) for node in members}
    lines = [" " * count + "    idx"]
    for node in members:
        behind = sum(index < known[node] for index in known.values())
        bar = "x" * behind + ">" + " " * (count - behind) if node in match else "?" + " " * count
        lines.append(f"{bar} {known[node]:5}    (id={node})")
    return "\n".join(lines) + "\n"
