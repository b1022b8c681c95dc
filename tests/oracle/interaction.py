"""Runs interaction scripts, which drive whole clusters of another Raft core, on ours.

What a script prints in between is that core's own text. Compared are the states it shows: `raft-state`,
`raft-log`, `status` and what `compact` leaves. Where it lets the whole cluster settle, every member must have
reached the same term and configuration and committed as much. Everything else has to leave the cluster safe.

Where we differ on purpose (each line is one rule, applied to every script):
  - Nothing is forwarded to the leader by a node: the runner hands a proposal to the leader itself.
  - A refused membership change is an error here, an empty entry there: the runner proposes the empty entry.
  - A change has to wait for the term's first entry to commit: the runner handles the leader's Readys before it asks.
  - A CONFIG entry carries the configuration, not the change: only its place and term are compared.
  - A configuration is in force once it is in the log, there once it is applied: states are not compared while one
    is in between, and a removed node need not hear of it.
  - A leader that is removed always steps down; there it is an option that is off by default. Where a
    script expects a leader without a vote, we expect a follower without a leader. It also names an heir,
    which is not done there: the runner loses that message.
  - Appends are put together when a Ready is taken, there at once: the runner takes a Ready after each proposal.
  - A new term is durable before votes are asked for or heartbeats answered in it, there meanwhile: the runner
    finishes the write of a candidate at once, and sends a heartbeat's answer before its time.
  - While a snapshot is sent, `next` has no meaning here; it is shown as the index after the snapshot.
  - What a leader tracks of itself has no state here; it is shown as replicating.
  - A lost link makes a peer count as silent here: `inactive` is not compared.
  - Committed entries are applied with their Ready: there is no apply thread to turn.
"""

import re
from collections.abc import Callable

from flotilla.raft.membership import AUTO, EXPLICIT, IMPLICIT, ConfigurationChange
from flotilla.raft.messages import (
    CONFIG,
    Append,
    AppendReply,
    CommitNews,
    Configuration,
    Entry,
    Heartbeat,
    HeartbeatReply,
    Message,
    SnapshotChunk,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from flotilla.raft.options import RaftOptions
from flotilla.raft.progress import PROBE, REPLICATE, SNAPSHOT, Progress
from flotilla.raft.roles import CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE
from flotilla.types.errors import ConfigurationChangeError, FlotillaError, NotLeaderError
from flotilla.types.ids import NO_NODE, Index, NodeId, Term
from flotilla.types.snapshot_data import whole
from tests.oracle.datadriven import Directive
from tests.oracle.test_confchange_oracle import describe, parse_changes
from tests.scenarios.cluster import Cluster, Member

ELECTION_TICKS = 3
HEARTBEAT_TICKS = 1
UNBOUNDED = 1 << 40

ROLE_NAMES = {
    FOLLOWER: "StateFollower",
    PRE_CANDIDATE: "StatePreCandidate",
    CANDIDATE: "StateCandidate",
    LEADER: "StateLeader",
}
PROGRESS_NAMES = {PROBE: "StateProbe", REPLICATE: "StateReplicate", SNAPSHOT: "StateSnapshot"}
TRANSITIONS = {"auto": AUTO, "implicit": IMPLICIT, "explicit": EXPLICIT}
MESSAGE_KINDS: dict[str, tuple[type[Message], ...]] = {
    "MsgVote": (VoteRequest,),
    "MsgVoteResp": (VoteReply,),
    "MsgPreVote": (VoteRequest,),
    "MsgPreVoteResp": (VoteReply,),
    "MsgApp": (Append, CommitNews),
    "MsgAppResp": (AppendReply, SnapshotReply),
    "MsgHeartbeat": (Heartbeat,),
    "MsgHeartbeatResp": (HeartbeatReply,),
    "MsgSnap": (SnapshotChunk,),
    "MsgTimeoutNow": (TimeoutNow,),
}
NODE_SETTINGS = {
    "async-storage-writes",
    "checkquorum",
    "content",
    "index",
    "inflight",
    "learners",
    "max-committed-size-per-ready",
    "prevote",
    "step-down-on-removal",
    "voters",
}


class UnsupportedError(Exception):
    """A script asks for something that this core does not offer."""


class Interaction:
    """One script's cluster."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.loses = self._is_inheritance

    def _is_inheritance(self, message: Message) -> bool:
        sender = self.cluster.members[message.sender]
        return isinstance(message, TimeoutNow) and not sender.node.configuration.is_voter(sender.id)

    def run(self, directive: Directive) -> str:
        """What the directive shows of the cluster's state; nothing for one that only acts."""
        command = COMMANDS.get(directive.command)
        if command is None:
            raise UnsupportedError(f"{directive.where}: no command {directive.command}")
        shown = command(self, directive)
        self.cluster.observe()
        return shown or ""

    # Building the cluster.

    def add_nodes(self, directive: Directive) -> None:
        unknown = sorted(set(directive.named) - NODE_SETTINGS)
        if unknown:
            raise UnsupportedError(f"{directive.where}: no setting {', '.join(unknown)}")
        options = RaftOptions(
            election_ticks=ELECTION_TICKS,
            heartbeat_ticks=HEARTBEAT_TICKS,
            quiesce_ticks=0,
            pre_vote=directive.flag("prevote"),
            check_quorum=directive.flag("checkquorum"),
            append_bytes_max=UNBOUNDED,
            inflight_bytes_max=UNBOUNDED,
            inflight_count_max=directive.number("inflight", UNBOUNDED),
            apply_bytes_max=directive.number("max-committed-size-per-ready", UNBOUNDED),
        )
        configuration = Configuration(
            voters=tuple(sorted(directive.numbers("voters"))), learners=tuple(sorted(directive.numbers("learners")))
        )
        for _ in range(int(directive.positional[0])):
            member = self.cluster.add(
                len(self.cluster.members) + 1,
                configuration,
                index=directive.number("index", 0),
                content=directive.text("content").encode(),
                options=options,
            )
            member.is_slow = directive.flag("async-storage-writes")
            member.always_snapshots = True

    # Turning it.

    def campaign(self, directive: Directive) -> None:
        self.cluster.node(first(directive)).campaign()

    def propose(self, directive: Directive) -> None:
        body = directive.positional[1].encode() if len(directive.positional) > 1 else b""
        self._at_leader(first(directive), lambda node_id: self.cluster.node(node_id).propose(body))

    def propose_change(self, directive: Directive) -> None:
        change = ConfigurationChange(parse_changes(directive.input), TRANSITIONS[directive.text("transition", "auto")])

        def attempt(node_id: NodeId) -> None:
            node = self.cluster.node(node_id)
            while node.pending_configuration_index > node.log.handed and self.cluster.has_work(node_id):
                self.cluster.process_ready(node_id)
            try:
                node.propose_change(change)
            except ConfigurationChangeError:
                node.propose(b"")

        self._at_leader(first(directive), attempt)

    def _at_leader(self, node_id: NodeId, attempt: Callable[[NodeId], object]) -> None:
        """Tries at the node and, when that one knows better, at the leader. A proposal may also be dropped."""
        try:
            attempt(node_id)
        except NotLeaderError as error:
            if error.leader in (NO_NODE, node_id):
                return
            node_id = error.leader
            attempt(node_id)
        except FlotillaError:
            return
        self.cluster.prepare(node_id)

    def tick(self, directive: Directive) -> None:
        count = ELECTION_TICKS if directive.command == "tick-election" else HEARTBEAT_TICKS
        for _ in range(count):
            self.cluster.call(first(directive), lambda node: node.tick())

    def set_election_timeout(self, directive: Directive) -> None:
        self.cluster.node(first(directive)).election_timeout = directive.number("timeout", ELECTION_TICKS)

    def forget_leader(self, directive: Directive) -> None:
        node = self.cluster.node(first(directive))
        if node.role == FOLLOWER:
            node.leader = NO_NODE

    def transfer(self, directive: Directive) -> None:
        self.cluster.node(directive.number("from", 0)).transfer(directive.number("to", 0))

    def report_unreachable(self, directive: Directive) -> None:
        node_id, peer = map(int, directive.positional)
        self.cluster.node(node_id).peer_down(peer)
        self.cluster.node(node_id).peer_up(peer)

    def send_snapshot(self, directive: Directive) -> None:
        sender, to = map(int, directive.positional)
        snapshot = self.cluster.members[sender].store.newest_snapshot
        assert snapshot is not None
        term = self.cluster.node(sender).term
        self.cluster.send([SnapshotChunk(sender, to, term, meta=snapshot.meta, offset=0, data=whole(snapshot.data))])

    def compact(self, directive: Directive) -> str:
        node_id, index = map(int, directive.positional)
        self.cluster.members[node_id].compact(index + 1)
        return self.show_log(directive)

    def process_ready(self, directive: Directive) -> None:
        for node_id in map(int, directive.positional):
            while self.cluster.members[node_id].prepared:
                self.cluster.process_ready(node_id)
            if self.cluster.has_work(node_id):
                self.cluster.process_ready(node_id)
            self._hurry(self.cluster.members[node_id])

    def process_append_thread(self, directive: Directive) -> None:
        """Finishes one write that stores something. Readys that store nothing are no work there."""
        for node_id in map(int, directive.positional):
            member = self.cluster.members[node_id]
            stored = False
            while member.writes and not (stored and member.writes[0].must_save):
                stored |= member.writes[0].must_save
                self.cluster.finish_write(node_id)

    def _hurry(self, member: Member) -> None:
        """Lets go of what waits for a write here and not there."""
        for ready in member.writes:
            hurried = [message for message in ready.messages_after_sync if isinstance(message, HeartbeatReply)]
            ready.messages_after_sync = [one for one in ready.messages_after_sync if one not in hurried]
            self.cluster.send(hurried)
        if any(isinstance(message, VoteRequest) for ready in member.writes for message in ready.messages_after_sync):
            while member.writes:
                self.cluster.finish_write(member.id)

    def deliver(self, directive: Directive) -> None:
        kinds = MESSAGE_KINDS[directive.text("type")] if "type" in directive.named else (Message,)
        for drop, recipients in ((False, directive.positional), (True, directive.named.get("drop", []))):
            for to in map(int, recipients):
                self.cluster.deliver(lambda message, to=to: message.to == to and isinstance(message, kinds), drop=drop)  # type: ignore[misc]

    def stabilize(self, directive: Directive) -> None:
        self.cluster.settle(map(int, directive.positional))

    def ignore(self, directive: Directive) -> None:
        """Log levels and threads that do not exist here."""

    def shortfalls(self, directive: Directive) -> list[str]:
        """What the script's cluster reached by settling and ours did not."""
        if directive.command != "stabilize" or directive.positional:
            return []
        found: list[str] = []
        for node_id, (term, commit, configuration) in settled_states(directive.expected).items():
            member = self.cluster.members[node_id]
            if node_id not in self._newest_configuration().members():
                continue
            if member.node.term != term or member.node.log.committed < commit:
                found.append(
                    f"{node_id}: term {member.node.term} commit {member.node.log.committed}, not {term} {commit}"
                )
            if configuration and describe(member.configuration) != configuration:
                found.append(f"{node_id}: {describe(member.configuration)}, not {configuration}")
        return found

    def _newest_configuration(self) -> Configuration:
        return max(self.cluster.members.values(), key=lambda member: member.applied).configuration

    # Showing it.

    def show_states(self, directive: Directive) -> str:
        if any(member.node.configuration != member.configuration for member in self.cluster.members.values()):
            return ""
        lines = []
        for member in self.cluster.members.values():
            node = member.node
            vote = "Voter" if member.configuration.is_voter(member.id) else "Non-Voter"
            lines.append(f"{member.id}: {ROLE_NAMES[node.role]} ({vote}) Term:{node.term} Lead:{node.leader}")
        return "\n".join(lines)

    def show_log(self, directive: Directive) -> str:
        disk = self.cluster.members[first(directive)].disk
        if not disk.stored:
            return f"log is empty: first index={disk.first_index()}, last index={disk.last_index()}"
        return "\n".join(format_entry(entry) for entry in disk.stored)

    def show_progress(self, directive: Directive) -> str:
        member = self.cluster.members[first(directive)]
        lines = [f"{node_id}: {format_progress(member, node_id, p)}" for node_id, p in member.node.progress.items()]
        return "\n".join(lines)


def settled_states(text: str) -> dict[NodeId, tuple[Term, Index, str]]:
    """The last term, commit index and configuration (or nothing) that each node shows while the cluster settles."""
    states: dict[NodeId, tuple[Term, Index, str]] = {}
    configurations = {
        int(node): shown for node, shown in re.findall(r"INFO (\d+) switched to configuration (.*)", text)
    }
    for part in text.split("> ")[1:]:
        header = re.match(r"(\d+) handling Ready", part)
        state = re.search(r"HardState Term:(\d+)(?: Vote:\d+)? Commit:(\d+)", part)
        if header and state:
            node_id = int(header[1])
            states[node_id] = (int(state[1]), int(state[2]), configurations.get(node_id, ""))
    return states


def first(directive: Directive) -> NodeId:
    return int(directive.positional[0])


def format_entry(entry: Entry) -> str:
    if entry.kind == CONFIG:
        return f"{entry.term}/{entry.index} EntryConfChange"
    return f'{entry.term}/{entry.index} EntryNormal "{bytes(entry.data).decode()}"'


def format_progress(member: Member, node_id: NodeId, progress: Progress) -> str:
    if node_id == member.id:
        return f"StateReplicate match={progress.match} next={progress.match + 1}"
    snapshot = progress.snapshot
    next_index = progress.next if snapshot is None else snapshot.index + 1
    text = f"{PROGRESS_NAMES[progress.state]} match={progress.match} next={next_index}"
    if node_id in member.configuration.learners:
        text += " learner"
    if progress.is_paused(member.options.inflight_bytes_max, member.options.inflight_count_max):
        text += " paused"
    if snapshot is not None:
        text += f" pendingSnap={snapshot.index}"
    if progress.inflight:
        full = len(progress.inflight) >= member.options.inflight_count_max
        text += f" inflight={len(progress.inflight)}" + "[full]" * full
    return text


COMMANDS: dict[str, Callable[[Interaction, Directive], str | None]] = {
    "add-nodes": Interaction.add_nodes,
    "campaign": Interaction.campaign,
    "compact": Interaction.compact,
    "deliver-msgs": Interaction.deliver,
    "forget-leader": Interaction.forget_leader,
    "log-level": Interaction.ignore,
    "process-append-thread": Interaction.process_append_thread,
    "process-apply-thread": Interaction.ignore,
    "process-ready": Interaction.process_ready,
    "propose": Interaction.propose,
    "propose-conf-change": Interaction.propose_change,
    "raft-log": Interaction.show_log,
    "raft-state": Interaction.show_states,
    "report-unreachable": Interaction.report_unreachable,
    "send-snapshot": Interaction.send_snapshot,
    "set-randomized-election-timeout": Interaction.set_election_timeout,
    "stabilize": Interaction.stabilize,
    "status": Interaction.show_progress,
    "tick-election": Interaction.tick,
    "tick-heartbeat": Interaction.tick,
    "transfer-leadership": Interaction.transfer,
}
