"""The decision to found a cluster: every named peer is asked first, and one that knows the cluster forbids it.

A node with an empty data directory cannot tell a first start from a lost disk; only its peers can. So it founds when
every one of them has answered, and each either is part of no cluster or has founded this one with this very data
directory a moment ago. While one is silent the node waits: the silent one may hold the data. Where one knows a cluster,
the node founds none, whatever the others say: two lost disks of three must not become an empty cluster of the same
name.

Pure: from the newest answers to what to do.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from flotilla.types.ids import NodeId
from flotilla.types.version import CLUSTER_VERSION_MAX

#: Why a node without a cluster founds none, for programs.
AWAITS_PEERS: Final = "AWAITS_PEERS"
CLUSTER_EXISTS: Final = "CLUSTER_EXISTS"


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """What a named peer said to the newest handshake."""

    is_accepted: bool
    #: It is part of a cluster.
    is_in_cluster: bool
    #: It founded that cluster with this node, on this node's very data directory.
    founded_with_us: bool
    #: The number of its data directory.
    data: int
    #: The id of its cluster; empty: it does not know it yet.
    cluster_id: str = ""
    #: Why it refused this node; empty: it did not.
    reason: str = ""
    #: The highest cluster version that both nodes support.
    version: int = CLUSTER_VERSION_MAX


@dataclass(frozen=True, slots=True)
class Found:
    """Found the cluster now. The numbers of the peers' data directories tell them apart from later ones."""

    founders: Mapping[NodeId, int] = field(default_factory=dict)
    #: The version with which the cluster begins: the highest that all of them support.
    version: int = CLUSTER_VERSION_MAX


@dataclass(frozen=True, slots=True)
class Wait:
    """Found nothing: a word for programs and a sentence for people."""

    code: str
    message: str


Verdict: TypeAlias = Found | Wait


def judge_founding(answers: Mapping[NodeId, PeerAnswer | None]) -> Verdict:
    """`answers` has every named peer; None: it cannot be reached."""
    knowing = {
        node: answer
        for node, answer in answers.items()
        if answer is not None and answer.is_in_cluster and not answer.founded_with_us
    }
    if knowing:
        return Wait(CLUSTER_EXISTS, _exists(knowing))
    silent = [node for node, answer in answers.items() if answer is None]
    reluctant = [node for node, answer in answers.items() if answer is not None and not answer.is_accepted]
    if silent or reluctant:
        return Wait(AWAITS_PEERS, _awaits(silent, {node: answers[node] for node in reluctant}))
    founders = {node: answer for node, answer in answers.items() if answer is not None}
    version = min([answer.version for answer in founders.values()], default=CLUSTER_VERSION_MAX)
    return Found({node: answer.data for node, answer in founders.items()}, version)


def _exists(knowing: Mapping[NodeId, PeerAnswer]) -> str:
    node, answer = min(knowing.items())
    which = f"cluster {answer.cluster_id}" if answer.cluster_id else "a cluster"
    others = f", and so are nodes {', '.join(map(str, sorted(knowing)[1:]))}" if len(knowing) > 1 else ""
    return (
        f"node {node} is part of {which} of this name already{others}, and this node's data directory is empty: no "
        "other cluster is founded; start this node with --join, or, if a majority of the disks is lost, see "
        "docs/operations.md"
    )


def _awaits(silent: list[NodeId], reluctant: Mapping[NodeId, PeerAnswer | None]) -> str:
    parts = []
    if silent:
        parts.append(f"cannot reach {_named(silent)}")
    for node, answer in sorted(reluctant.items()):
        assert answer is not None
        parts.append(f"is refused by node {node}: {answer.reason}")
    return (
        f"a cluster is founded when all its first nodes have said that they hold no data, and this node "
        f"{', and '.join(parts)}; --found-without goes on without a node that never held any"
    )


def _named(nodes: list[NodeId]) -> str:
    return ("node " if len(nodes) == 1 else "nodes ") + ", ".join(map(str, sorted(nodes)))
