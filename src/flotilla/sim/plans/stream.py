"""The plan of the stream workload: partitions, members, and how they behave.

Drawn from a stream of its own, so that it shifts nothing of what `plan` draws. Raft group 1 is the cluster's metadata,
the groups behind it are the partitions of one topic. Sessions are short, so that a run of minutes sees many members
fall silent.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from flotilla.types.ids import GroupId
from flotilla.types.operations.stream import ROUND_ROBIN, STICKY

METADATA: Final[GroupId] = 1
FIRST_PARTITION: Final[GroupId] = 2
PARTITION_COUNT: Final = 3
STREAM_GROUPS: Final = 1 + PARTITION_COUNT

TOPIC: Final = "topic"
READERS: Final = "readers"


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """Everything that a run of the stream workload draws before it begins, beside `Plan`."""

    members: int
    strategy: str
    session_ms: int
    #: Partitions that the topic begins with; it grows to all of them at some time.
    first_partitions: int
    #: A member crashes, pauses or leaves once in this many heartbeats; 0: never.
    trouble_one_in: int
    #: How long a member may go on with a partition that it must give up.
    revoke_ms: int
    heartbeat_ms: int
    commit_ms: int


def draw_stream_plan(seed: int) -> StreamPlan:
    random = Random(f"{seed}/stream plan")
    return StreamPlan(
        members=random.choice((2, 3, 3, 4, 5)),
        strategy=random.choice((STICKY, STICKY, STICKY, ROUND_ROBIN)),
        session_ms=random.choice((1_500, 3_000, 6_000)),
        first_partitions=random.randint(1, PARTITION_COUNT),
        trouble_one_in=random.choice((0, 10, 25, 60)),
        revoke_ms=random.choice((0, 200, 2_000)),
        heartbeat_ms=random.choice((100, 300)),
        commit_ms=random.choice((100, 400)),
    )


def group_of(partition: int) -> GroupId:
    """The raft group of a partition."""
    return FIRST_PARTITION + partition
