"""Deliberate bugs of stream groups, each the kind of mistake that makes two members work on one partition."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from flotilla.metadata import assignment, stream_sessions
from flotilla.metadata.assignment import NO_OWNER
from flotilla.metadata.stream_groups import Share, StreamGroup, StreamGroupTable
from flotilla.metadata.stream_sessions import StreamSessions
from flotilla.partition.commands.partition_commands import ClaimPartition
from flotilla.partition.state import snapshot
from flotilla.partition.state.group_table import GroupTable
from flotilla.sim.whole.mutants.mutant import WholeMutant
from flotilla.types.ids import Offset
from flotilla.types.operations.stream import NO_OFFSET, STICKY


def _claim_without_a_fence(original: Any) -> Any:
    def claim(self: GroupTable, command: ClaimPartition) -> Offset:
        position = self.positions.get(command.group)
        return NO_OFFSET if position is None else position.offset

    return claim


def _restore_no_fences(original: Any) -> Any:
    def read_fences(reader: Any) -> dict[str, int]:
        original(reader)
        return {}

    return read_fences


def _give_at_once(original: Any) -> Any:
    """The present owner is not waited for."""

    def rebalance(self: StreamGroupTable, *arguments: Any) -> StreamGroup:
        group: StreamGroup = original(self, *arguments)
        shares = tuple(
            share if share.owner == share.target else Share(share.target, group.generation, share.target)
            for share in group.shares
        )
        return self.put(replace(group, shares=shares))

    return rebalance


def _keep_the_epoch(original: Any) -> Any:
    """A partition changes its owner and keeps its epoch."""

    def release(self: StreamGroupTable, topic_id: int, name: str, *arguments: Any) -> StreamGroup | None:
        before = self.find(topic_id, name)
        group: StreamGroup | None = original(self, topic_id, name, *arguments)
        if group is None or before is None or group is before:
            return group
        shares = tuple(now._replace(epoch=was.epoch) for was, now in zip(before.shares, group.shares, strict=True))
        return self.put(replace(group, shares=shares))

    return release


def _touch_everything(original: Any) -> Any:
    """Every member gets its partitions anew: all work stops for one new member."""

    def rebalance(self: StreamGroupTable, *arguments: Any) -> StreamGroup:
        group: StreamGroup = original(self, *arguments)
        shares = tuple(
            Share(share.owner, group.generation, share.target) if share.owner == share.target else share
            for share in group.shares
        )
        return self.put(replace(group, shares=shares))

    return rebalance


def _forget_the_leaver(original: Any) -> Any:
    """The partitions of a member that leaves get no owner."""

    def rebalance(self: StreamGroupTable, group: StreamGroup, *arguments: Any) -> StreamGroup:
        made: StreamGroup = original(self, group, *arguments)
        shares = tuple(
            Share(NO_OWNER, was.epoch, NO_OWNER) if was.owner != NO_OWNER and not made.has_member(was.owner) else now
            for was, now in zip(group.shares, made.shares, strict=False)
        )
        return self.put(replace(made, shares=shares + made.shares[len(shares) :]))

    return rebalance


def _to_the_first(original: Any) -> Any:
    def assign(members: Sequence[str], owners: Sequence[str]) -> list[str]:
        return [owner if owner != NO_OWNER else members[0] if members else NO_OWNER for owner in owners]

    return assign


def _deal_anew(original: Any) -> Any:
    return assignment.assign_round_robin


def _judge_at_once(original: Any) -> Any:
    """Silence counts double."""

    def longer_silent(heard_ms: dict[str, int], since_ms: int) -> tuple[str, ...]:
        found: tuple[str, ...] = original(heard_ms, since_ms + stream_sessions.GAP_MS_MAX // 2)
        return found

    return longer_silent


def _never_judge(original: Any) -> Any:
    return lambda self, groups, now_ms: []


MUTANTS: Final = (
    WholeMutant(
        "claim-in-vain",
        "a claim fences no earlier owner",
        ((GroupTable, "_claim", _claim_without_a_fence),),
        ("stream",),
        ("isolate", "pause", "cut-client", "kill"),
    ),
    WholeMutant(
        "restore-no-fences",
        "a snapshot has no fences",
        ((snapshot, "_read_fences", _restore_no_fences),),
        ("stream",),
        ("isolate", "pause", "cut-client", "kill"),
    ),
    WholeMutant(
        "give-at-once",
        "a partition has a new owner before the old one lets go",
        ((StreamGroupTable, "_rebalance", _give_at_once),),
        ("stream",),
        ("isolate", "pause", "cut-client", "kill"),
    ),
    WholeMutant(
        "share-an-epoch",
        "an epoch has two owners",
        ((StreamGroupTable, "release", _keep_the_epoch),),
        ("stream",),
        ("isolate", "pause", "cut-client", "kill"),
    ),
    WholeMutant(
        "touch-everything",
        "what stays is given anew",
        ((StreamGroupTable, "_rebalance", _touch_everything),),
        ("stream",),
        ("isolate", "pause", "cut-client", "kill"),
    ),
    WholeMutant(
        "forget-the-leaver",
        "a leaver's partitions have no owner",
        ((StreamGroupTable, "_rebalance", _forget_the_leaver),),
        ("stream",),
        ("isolate", "pause", "cut-client", "kill"),
    ),
    WholeMutant(
        "to-the-first",
        "the first member gets whatever is free",
        ((assignment.STRATEGY_BY_NAME, STICKY, _to_the_first),),
        ("stream",),
        ("isolate", "pause", "cut-client", "kill"),
    ),
    WholeMutant(
        "deal-anew",
        "partitions are dealt out anew each time",
        ((assignment.STRATEGY_BY_NAME, STICKY, _deal_anew),),
        ("stream",),
        ("isolate", "pause", "cut-client", "kill"),
    ),
    WholeMutant(
        "judge-at-once",
        "members are out before their session ends",
        ((stream_sessions, "_longer_silent", _judge_at_once),),
        ("stream",),
        ("isolate", "pause", "cut-client", "kill"),
    ),
    WholeMutant(
        "never-judge",
        "a silent member stays",
        ((StreamSessions, "silent", _never_judge),),
        ("stream",),
        ("isolate", "pause", "cut-client", "kill"),
    ),
)
