"""The options of one consensus group, in ticks and bytes. `validate` checks the rules between fields."""

from dataclasses import dataclass

from flotilla.types import limits

#: More than is ever sent.
UNLIMITED_BYTES = 1 << 62


@dataclass(frozen=True, slots=True)
class RaftOptions:
    #: A follower stands for election after this many ticks without its leader, plus a random part of as many again.
    election_ticks: int = 10
    #: The longest silence of a leader.
    heartbeat_ticks: int = 3
    #: An idle leader makes its group quiescent after this many ticks without work; 0: never.
    quiesce_ticks: int = 30
    #: After a lost link the voters stand one after the other, this many ticks apart, so that votes do not split.
    succession_ticks: int = 2
    #: Who is the first of them differs between groups with different numbers, but not between replicas of one group.
    succession_turn: int = 0
    #: A new commit index waits this many ticks for an append to carry it, so that under load it costs no message
    #: of its own; 0 sends it at once.
    commit_news_ticks: int = 0
    #: Thrifty replication: while no more bytes than this are uncommitted, entries go at once only to the voters that
    #: a quorum needs; the others get them later, batched, at the latest with the next tick. 0: all voters at once.
    thrifty_bytes_max: int = 0
    append_bytes_max: int = limits.APPEND_BYTES_MAX
    inflight_bytes_max: int = limits.INFLIGHT_BYTES_MAX
    inflight_count_max: int = limits.INFLIGHT_COUNT_MAX
    proposal_bytes_max: int = limits.PROPOSAL_BYTES_MAX
    proposal_count_max: int = limits.PROPOSAL_COUNT_MAX
    apply_bytes_max: int = limits.APPLY_BYTES_MAX
    read_count_max: int = limits.READ_COUNT_MAX
    snapshot_chunk_bytes_max: int = limits.SNAPSHOT_CHUNK_BYTES_MAX
    snapshot_bytes_max: int = limits.SNAPSHOT_BYTES_MAX
    #: Ask all voters whether an election could be won before starting one. Off only in comparisons with other cores.
    pre_vote: bool = True
    #: A leader that has not heard from a quorum steps down; followers that hear a leader refuse to vote.
    check_quorum: bool = True

    def validate(self) -> None:
        assert self.heartbeat_ticks >= 1
        assert self.election_ticks > self.heartbeat_ticks, "a heartbeat must come before followers stand for election"
        assert self.quiesce_ticks == 0 or self.quiesce_ticks >= self.heartbeat_ticks
        assert self.append_bytes_max >= 1
        assert self.inflight_count_max >= 1
        assert self.inflight_bytes_max >= 1
        assert self.snapshot_chunk_bytes_max >= 1
