"""How far partitions on the move have come: a bar for people, and the rows of `cluster status`.

Brokers know which partitions move; how much of one has arrived only its leader can tell, so a few leaders are asked.
A move counts for what its slowest new replica has of the log, and as a whole when it is over.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rich.progress import TextColumn, TimeElapsedColumn

from flotilla.cli.terminal.progress import progress_bar
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import Metadata

if TYPE_CHECKING:
    from flotilla.client.client import Client

POLL_S = 0.5
#: Leaders that are asked at once.
ASKED_MAX = 8
_ASK_MS = 2_000


class Moving(NamedTuple):
    topic: str
    partition: int
    replicas: list[int]
    target: list[int]

    @property
    def newcomers(self) -> list[int]:
        return [node for node in self.target if node not in self.replicas]

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


def moving(metadata: Metadata) -> list[Moving]:
    return [
        Moving(topic.name, part.number, part.replicas, part.target)
        for topic in metadata.topics
        for part in topic.partitions
        if part.target
    ]


def shares_there(client: "Client", moves: list[Moving]) -> dict[str, float]:
    """Of the first few moves by name, how much has arrived: 0 to 1. Those whose leader is silent are left out."""
    found: dict[str, float] = {}
    for move in moves[:ASKED_MAX]:
        with suppress(FlotillaError):
            described = client.describe_replicas(move.topic, move.partition, timeout_ms=_ASK_MS)
            behind = {replica.node: replica.behind_bytes for replica in described.replicas}
            missing = max((behind.get(node, described.size_bytes) for node in move.newcomers), default=0)
            found[str(move)] = 1 - missing / max(1, described.size_bytes)
    return found


def watch(
    client: "Client", title: str, remaining: Callable[[Metadata], list[Moving]], is_over: Callable[[Metadata], bool]
) -> None:
    """Shows a bar until it is over. Whoever has enough of it may stop looking: the moves go on."""
    most = 0
    with progress_bar(TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn()) as progress:
        task = progress.add_task(title, total=1.0)
        while True:
            with suppress(FlotillaError):
                metadata = client.metadata()
                if is_over(metadata):
                    return
                left = remaining(metadata)
                most = max(most, len(left))
                if most and not progress.disable:
                    there = shares_there(client, left)
                    done = most - len(left) + sum(there.values())
                    progress.update(task, completed=done / most, description=f"{title}: {len(left)} left")
            time.sleep(POLL_S)
