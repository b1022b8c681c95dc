"""The progress of moving partitions: a bar for people, and rows of `cluster status`.

Every broker knows which partitions move; only a leader knows how much of one is copied, so a few leaders are asked. A
move counts for the share of the log that its slowest new replica has, and for 1 when it is over.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from flotilla.types.errors import FlotillaError
from flotilla.types.operations import Metadata

if TYPE_CHECKING:
    from flotilla.client.client import Client

POLL_S = 0.5
#: More would delay the command.
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
    """The copied share, 0 to 1, of the first few moves by name; without those whose leader does not answer."""
    found: dict[str, float] = {}
    for move in moves[:ASKED_MAX]:
        with suppress(FlotillaError):
            described = client.admin.describe_replicas(move.topic, move.partition, timeout_ms=_ASK_MS)
            behind = {replica.node: replica.behind_bytes for replica in described.replicas}
            missing = max((behind.get(node, described.size_bytes) for node in move.newcomers), default=0)
            found[str(move)] = 1 - missing / max(1, described.size_bytes)
    return found


def watch(
    client: "Client", title: str, remaining: Callable[[Metadata], list[Moving]], is_over: Callable[[Metadata], bool]
) -> None:
    """Shows a bar until `is_over`. Interrupting it does not stop the moves."""
    most = 0
    # Loaded here: few commands have a bar to show.
    from rich.progress import TextColumn, TimeElapsedColumn

    from flotilla.cli.terminal.progress import progress_bar

    with progress_bar(TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn()) as progress:
        task = progress.add_task(title, total=1.0)
        while True:
            with suppress(FlotillaError):
                metadata = client.admin.metadata()
                if is_over(metadata):
                    return
                left = remaining(metadata)
                most = max(most, len(left))
                if most and not progress.disable:
                    there = shares_there(client, left)
                    done = most - len(left) + sum(there.values())
                    progress.update(task, completed=done / most, description=f"{title}: {len(left)} left")
            time.sleep(POLL_S)
