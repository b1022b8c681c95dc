"""The plan of the queue workload: groups, their rules, and how their members behave.

Drawn from a stream of its own, so that it shifts nothing of what `plan` draws. Raft group 1 is the topic, raft group 2
the dead-letter topic of all its queue groups. Times are short: a lease of seconds, a backoff below that, so that a run
of minutes sees every message through several attempts.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from flotilla.types.group_settings import GroupRules
from flotilla.types.ids import GroupId

TOPIC: Final[GroupId] = 1
DEAD_LETTERS: Final[GroupId] = 2
QUEUE_GROUPS: Final = 2

#: What the members of a group ask for.
WORK: Final = "work"
ORDERED: Final = "ordered"
ONCE: Final = "once"
PACED: Final = "paced"

#: A rate limit that lets a backlog go quickly, for the time after the faults.
GENEROUS_PER_MINUTE: Final = 6_000


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One queue group. Its name is what its members ask for."""

    name: str
    members: int
    rules: GroupRules


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """Everything that a run of the queue workload draws before it begins, beside `Plan`."""

    groups: tuple[GroupPlan, ...]
    #: The clock of each node, ahead of the world's by this: a small number of nodes takes them in turn.
    skews_ms: tuple[int, ...]
    #: Batches that all producers together send while faults last.
    batches_max: int
    batch_records_max: int
    #: Keys for the order by key; few of them make much waiting.
    key_count: int
    poll_messages_max: int
    handle_ms: int
    #: A member crashes, pauses or forgets once in this many messages; 0: never.
    trouble_one_in: int
    #: Retention leaves about this many messages in the log; 0: all of them.
    keep_messages: int
    #: Retention by age; 0: none.
    retention_ms: int
    cancels: bool
    #: The first group is reset now and then.
    resets: bool
    #: Clients of transactions, and how many each of them begins while faults last.
    transactors: int
    transactions_max: int

    @property
    def skew_ms(self) -> int:
        """How far two clocks can be apart."""
        return max(self.skews_ms) - min(self.skews_ms)

    def group(self, name: str) -> GroupPlan:
        return next(group for group in self.groups if group.name == name)


def draw_queue_plan(seed: int) -> QueuePlan:
    random = Random(f"{seed}/queue plan")
    names = [WORK, *(name for name in (ORDERED, ONCE, PACED) if random.random() < 0.5)]
    skew_ms = random.choice((0, 0, 0, 20, 400))
    return QueuePlan(
        groups=tuple(_draw_group(random, name) for name in names),
        skews_ms=tuple(random.randint(0, skew_ms) for _ in range(7)),
        batches_max=random.choice((40, 80, 120)),
        batch_records_max=random.choice((1, 3, 5)),
        key_count=random.choice((1, 3, 8)),
        poll_messages_max=random.choice((1, 2, 5, 20)),
        handle_ms=random.choice((20, 200, 1_000, 4_000)),
        trouble_one_in=random.choice((0, 8, 15, 40)),
        keep_messages=random.choice((0, 0, 5, 30)),
        cancels=random.random() < 0.4,
        resets=random.random() < 0.4,
        transactors=random.choice((0, 1, 2, 3)),
        transactions_max=random.choice((5, 15)),
        retention_ms=random.choice((0, 40_000, 90_000, 90_000)),
    )


def _draw_group(random: Random, name: str) -> GroupPlan:
    is_paced = name == PACED
    rules = GroupRules(
        max_deliveries=random.choice((1, 2, 3, 5)),
        visibility_ms=random.choice((500, 2_000, 5_000, 15_000)),
        nack_backoff_ms=random.choice((10, 300, 4_000)),
        nack_backoff_max_ms=random.choice((1_000, 8_000)),
        rate_limit_per_minute=random.choice((30, 90, 600)) if is_paced else 0,
        rate_limit_burst=random.choice((1, 3, 10)),
        lease_ms_max=random.choice((3_000, 60_000)),
        lost_ms=1_000,
        dead_letters=0 if random.random() < 0.2 else 1,
        dead_letter_topic="",
        ordered=0,
        result_ttl_ms=0,
        paused=0,
        holds_retention=0 if random.random() < 0.3 else 1,
        single_active=0,
        expires_after_ms=0,
    )
    return GroupPlan(name, random.choice((1, 2, 3)), rules)
