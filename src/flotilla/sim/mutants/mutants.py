"""Deliberate bugs, one at a time: clean seeds prove little, planted bugs measure the simulator.

A mutant replaces one function of the product for the length of a run. Each stands for a mistake that
has been made in practice. A mutant that survives its seeds is a hole in the simulator.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from flotilla.raft import follower, leader, proposals, quorum, replication
from flotilla.raft.configuration import encode_configuration
from flotilla.raft.log import RaftLog
from flotilla.raft.membership import ConfigurationChange, apply_change
from flotilla.raft.messages import (
    DATA,
    Append,
    Configuration,
    HardState,
    Heartbeat,
    HeartbeatReply,
    Ready,
    VoteRequest,
)
from flotilla.raft.node import _STEPS, RaftNode
from flotilla.raft.roles import FOLLOWER, LEADER
from flotilla.raft.state import RaftState
from flotilla.replica.ports import PendingSnapshot
from flotilla.replica.replica import Replica
from flotilla.runtime.driver import Driver
from flotilla.sim.devices.disk import SimDisk, SimFile
from flotilla.sim.mutants.disks import ROWS as DISK_ROWS
from flotilla.sim.mutants.disks import commit_unconfirmed
from flotilla.sim.mutants.replacement import Replacement, replaced
from flotilla.storage import block, recovery, segment
from flotilla.storage.framing import ENTRY, TRUNCATE, Frame
from flotilla.storage.journal import journal_path
from flotilla.storage.maintenance import MaintenanceJob
from flotilla.storage.recovery import Replay
from flotilla.storage.store import NodeStore
from flotilla.types.errors import NotLeaderError
from flotilla.types.ids import NO_NODE, Index, NodeId, Term


@dataclass(frozen=True, slots=True)
class Mutant:
    """`make` gets the original and returns what takes its place."""

    name: str
    mistake: str
    replacements: tuple[Replacement, ...]
    #: Faults that bring about what it takes, where the drawn ones seldom do.
    faults: tuple[str, ...] | None = None


def applied(name: str) -> AbstractContextManager[None]:
    """The product with one bug in it."""
    return replaced(MUTANTS[name].replacements)


# Votes and terms.


def _forget_vote(original: Any) -> Any:
    def take_hard_state(self: RaftNode, has_entries: bool) -> HardState | None:
        state: HardState | None = original(self, has_entries)
        return replace(state, vote=NO_NODE) if state is not None else None

    return take_hard_state


def _vote_twice(original: Any) -> Any:
    def on_vote_request(node: RaftNode, request: VoteRequest) -> None:
        if not request.pre:
            node.vote = node.leader = NO_NODE
        original(node, request)

    return on_vote_request


def _drop_vote(original: Any) -> Any:
    def become_follower(self: RaftNode, term: Term, leader_id: NodeId, *reason: int) -> None:
        original(self, term, leader_id, *reason)
        self.vote = NO_NODE

    return become_follower


def _vote_for_any_log(original: Any) -> Any:
    return lambda self, last_index, last_term: True


def _half_is_enough(original: Any) -> Any:
    return lambda voters: max(1, len(voters) // 2)


# Durability.


def _send_before_sync(original: Any) -> Any:
    def ready(self: RaftNode) -> Ready:
        taken: Ready = original(self)
        taken.messages = taken.messages + taken.messages_after_sync
        taken.messages_after_sync = []
        return taken

    return ready


def _never_sync(original: Any) -> Any:
    return lambda self: None


def _never_sync_names(original: Any) -> Any:
    return lambda self, path: None


def _count_self_early(original: Any) -> Any:
    def own_log_written(node: RaftNode) -> None:
        progress = node.progress.get(node.id)
        if progress is not None and progress.accepted(node.log.last_index):
            leader._advance_commit(node)

    return own_log_written


def _count_self_when_proposing(original: Any) -> Any:
    def propose(node: RaftNode, data: bytes) -> Index:
        index: Index = original(node, data)
        leader.own_log_written(node)
        return index

    return propose


def _remove_journal_early(original: Any) -> Any:
    def finish_maintenance(self: NodeStore, job: MaintenanceJob) -> None:
        original(self, job)
        if job.flushes is not None:
            numbers = self._journal.numbers
            for number in [number for number in numbers if number < job.keep_from]:
                numbers.remove(number)
                self._disk.remove(journal_path(number))

    return finish_maintenance


def _trust_every_checksum(original: Any) -> Any:
    return lambda crc, head, body, salt: True


def _forget_truncations(original: Any) -> Any:
    return lambda image: (row for row in original(image) if row[0] != TRUNCATE)


def _keep_what_is_there(original: Any) -> Any:
    def apply_entry(self: Replay, tag: int, head: bytes, frame: Frame, body: memoryview | None) -> None:
        if tag != ENTRY or frame.index > self.logs[frame.group].last_index():
            original(self, tag, head, frame, body)

    return apply_entry


# The log.


def _commit_older_terms(original: Any) -> Any:
    def advance_commit(node: RaftNode) -> None:
        match = {peer: progress.match for peer, progress in node.progress.items()}
        index = min(quorum.committed_index(node.configuration, match), node.log.last_index)
        if index > node.log.committed:
            node.log.commit_to(index)

    return advance_commit


def _skip_previous_check(original: Any) -> Any:
    return lambda self, index, term: self.base <= index <= self.last_index


def _commit_what_is_not_new(original: Any) -> Any:
    def on_append(node: RaftNode, append: Append) -> None:
        original(node, append)
        node.log.commit_to(min(append.commit, node.log.last_index))

    return on_append


def _commit_by_heartbeat(original: Any) -> Any:
    def send_heartbeats(node: RaftNode) -> None:
        original(node)
        for message in node.messages:
            if isinstance(message, Heartbeat):
                message.commit = node.log.committed

    return send_heartbeats


def _commit_by_fewer(original: Any) -> Any:
    def majority_committed(voters: tuple[int, ...], match: dict[int, Index]) -> Index:
        return sorted(match.get(voter, 0) for voter in voters)[len(voters) // 2 + (len(voters) > 2)]

    return majority_committed


# Membership.


def _change_while_changing(original: Any) -> Any:
    def propose_change(node: RaftNode, change: ConfigurationChange) -> Index:
        proposals.require_leading(node)
        configuration = apply_change(node.configuration, change)
        node.wake()
        return proposals.append_configuration(node, encode_configuration(configuration))

    return propose_change


def _skip_joint(original: Any) -> Any:
    def change_members(configuration: Configuration, change: ConfigurationChange) -> Configuration:
        following: Configuration = original(configuration, change)
        if not configuration.is_joint and following.is_joint:
            return replace(following, outgoing=(), learners_next=(), auto_leave=False)
        return following

    return change_members


def _new_half_commits(original: Any) -> Any:
    return lambda configuration, match: original(replace(configuration, outgoing=()), match)


def _new_half_elects(original: Any) -> Any:
    return lambda configuration, votes: original(replace(configuration, outgoing=()), votes)


def _learners_count(original: Any) -> Any:
    def committed_index(configuration: Configuration, match: dict[int, Index]) -> Index:
        everyone = (*configuration.voters, *configuration.learners)
        index: Index = original(replace(configuration, voters=everyone), match)
        return index

    return committed_index


# Snapshots, reads, answers.


def _snapshot_one_behind(original: Any) -> Any:
    def take_snapshot(self: Replica) -> PendingSnapshot | None:
        taken: PendingSnapshot | None = original(self)
        if taken is None or taken.meta.index - 1 <= taken.meta.log_index:
            return taken
        index = taken.meta.index - 1
        return PendingSnapshot(replace(taken.meta, index=index, term=self.raft.log.term(index)), taken.encode)

    return take_snapshot


def _read_at_once(original: Any) -> Any:
    def read(self: Replica, query: object, token: object) -> None:
        self.replies.append((token, self.machine.read(query)))

    return read


def _read_without_asking(original: Any) -> Any:
    def add_read(node: RaftNode, asking: int, read_id: int) -> None:
        original(node, asking, read_id)
        for voter in node.configuration.voters:
            node.reads.acknowledged[voter] = node.reads.sequence
        leader._confirm_reads(node)

    return add_read


def _deny_orphans(original: Any) -> Any:
    def fail_orphans(self: Replica) -> None:
        before = len(self.replies)
        original(self)
        self.replies[before:] = [(token, NotLeaderError()) for token, _ in self.replies[before:]]

    return fail_orphans


def _apply_twice(original: Any) -> Any:
    def apply(self: Replica, entries: list[Any]) -> None:
        original(self, entries)
        if entries and entries[-1].kind == DATA and entries[-1].index % 50 == 0:
            self.machine.apply(entries[-1])

    return apply


def _apply_again(original: Any) -> Any:
    def replica(self: Replica, *arguments: Any) -> None:
        original(self, *arguments)
        log = self.raft.log
        if log.base < log.handed <= log.committed:
            log.handed -= 1
            self.applied -= 1

    return replica


# Liveness.


def _sleep_through_a_lost_leader(original: Any) -> Any:
    def peer_down(self: RaftNode, peer: int) -> None:
        if not self.quiescent:
            original(self, peer)

    return peer_down


def _never_probe_again(original: Any) -> Any:
    def on_heartbeat_reply(node: RaftNode, reply: Any) -> None:
        progress = node.progress.get(reply.sender)
        waits = progress is not None and progress.probe_sent
        original(node, reply)
        if progress is not None and waits:
            progress.probe_sent = True

    return on_heartbeat_reply


def _never_retry(original: Any) -> Any:
    return lambda self: None


def _mutant(
    name: str, mistake: str, *replacements: Replacement, faults: tuple[str, ...] | None = None
) -> tuple[str, Mutant]:
    return name, Mutant(name, mistake, replacements, faults=faults)


MUTANTS: dict[str, Mutant] = dict(
    [
        _mutant("forget-vote", "the vote is not saved", (RaftNode, "_take_hard_state", _forget_vote)),
        _mutant(
            "vote-twice",
            "votes for every candidate that asks, also twice in a term",
            (_STEPS[FOLLOWER], VoteRequest, _vote_twice),
        ),
        _mutant("drop-vote", "steps down and forgets the vote of the term", (RaftState, "become_follower", _drop_vote)),
        _mutant("any-log", "votes for a log that is behind", (RaftState, "is_up_to_date", _vote_for_any_log)),
        _mutant("half-votes", "half of the voters elect a leader", (quorum, "majority_size", _half_is_enough)),
        _mutant("send-before-sync", "answers leave before the sync", (RaftNode, "ready", _send_before_sync)),
        _mutant("never-sync", "files are never synced", (SimFile, "sync", _never_sync)),
        _mutant("never-sync-names", "folders are never synced", (SimDisk, "sync_directory", _never_sync_names)),
        _mutant(
            "count-self-early",
            "a leader counts its own copy before it is written",
            (leader, "own_log_written", _count_self_early),
            (proposals, "propose", _count_self_when_proposing),
        ),
        _mutant(
            "remove-journal-early",
            "a journal file goes before its checkpoint is durable",
            (NodeStore, "finish_maintenance", _remove_journal_early),
        ),
        _mutant(
            "no-checksum",
            "checksums of entries are not checked",
            (segment, "is_intact", _trust_every_checksum),
            (block, "is_intact", _trust_every_checksum),
        ),
        _mutant(
            "forget-truncation",
            "a restart brings back what was cut off the log",
            (recovery, "records_of", _forget_truncations),
            (Replay, "_apply_entry", _keep_what_is_there),
        ),
        _mutant("old-term", "a leader commits older terms", (leader, "_advance_commit", _commit_older_terms)),
        _mutant("no-previous", "appends without comparing terms", (RaftLog, "matches", _skip_previous_check)),
        _mutant(
            "commit-beyond-new",
            "commits entries that the append did not confirm",
            (_STEPS[FOLLOWER], Append, _commit_what_is_not_new),
        ),
        _mutant(
            "commit-by-heartbeat",
            "heartbeats carry the commit index beyond what matches, and are believed",
            (replication, "send_heartbeats", _commit_by_heartbeat),
            (follower, "_commit_agreed", commit_unconfirmed),
        ),
        _mutant("fewer-copies", "commits with one copy too few", (quorum, "majority_committed", _commit_by_fewer)),
        _mutant(
            "two-changes",
            "a change begins while one is in flight",
            (proposals, "propose_change", _change_while_changing),
        ),
        _mutant(
            "skip-joint", "goes to the new members without a joint phase", (proposals, "apply_change", _skip_joint)
        ),
        _mutant(
            "half-joint",
            "a joint phase decides by its new half alone",
            (quorum, "committed_index", _new_half_commits),
            (quorum, "vote_result", _new_half_elects),
        ),
        _mutant("learners-count", "learners count for commit", (quorum, "committed_index", _learners_count)),
        _mutant(
            "snapshot-behind",
            "a snapshot claims one entry less",
            (Replica, "take_snapshot", _snapshot_one_behind),
        ),
        _mutant("local-read", "reads are served from the local state", (Replica, "read", _read_at_once)),
        _mutant(
            "unasked-read",
            "a leader reads without asking a quorum",
            (leader, "_add_read", _read_without_asking),
            # Almost always a leader steps down before another is elected; one that was paused does not.
            faults=("pause",),
        ),
        _mutant("deny-orphans", "unknown outcomes are answered as not done", (Replica, "fail_orphans", _deny_orphans)),
        _mutant("apply-twice", "an entry is applied twice", (Replica, "apply", _apply_twice)),
        _mutant(
            "apply-again", "a restart applies the snapshot's last entry again", (Replica, "__init__", _apply_again)
        ),
        _mutant(
            "sleep-on",
            "a sleeping group ignores a lost peer",
            (RaftNode, "peer_down", _sleep_through_a_lost_leader),
        ),
        _mutant(
            "never-probe",
            "a lost probe is never repeated",
            (_STEPS[LEADER], HeartbeatReply, _never_probe_again),
        ),
        _mutant("never-retry", "a failed write is never tried again", (Driver, "_retry", _never_retry)),
    ]
)
MUTANTS |= {
    name: Mutant(name, mistake, replacements, faults=faults) for name, mistake, faults, replacements in DISK_ROWS
}
