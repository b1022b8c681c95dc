"""What one seed of the whole product is about: how many brokers and clients, which faults, which workloads."""

from dataclasses import dataclass
from random import Random
from typing import Final

from flotilla.sim.devices.world import SECOND

NODES: Final = (3, 3, 3, 4, 5)
DURATION_S: Final = 60
#: Kinds of clients in one run.
WORKLOADS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class WholePlan:
    seed: int
    nodes: int
    duration_us: int
    #: Names of faults.faults; empty: nothing breaks.
    faults: tuple[str, ...]
    #: Names of workloads.
    workloads: tuple[str, ...]
    #: One setting of the cluster differs between its brokers.
    is_mixed: bool = False
    #: After the faults a majority is healed, and the rest stays broken for ever.
    heals_core_only: bool = False


def draw_whole_plan(
    seed: int,
    *,
    known_faults: tuple[str, ...],
    known_workloads: tuple[str, ...],
    duration_s: int = DURATION_S,
    faults: tuple[str, ...] | None = None,
    workloads: tuple[str, ...] | None = None,
    nodes: int | None = None,
) -> WholePlan:
    """Each argument that is given takes the place of a drawn one."""
    random = Random(f"whole plan {seed}")
    drawn_nodes = random.choice(NODES)
    drawn_faults = tuple(name for name in known_faults if random.random() < 0.4)
    count = random.randint(1, min(len(known_workloads), WORKLOADS_MAX))
    drawn_workloads = tuple(sorted(random.sample(known_workloads, count)))
    return WholePlan(
        seed=seed,
        nodes=drawn_nodes if nodes is None else nodes,
        duration_us=duration_s * SECOND,
        faults=drawn_faults if faults is None else faults,
        workloads=drawn_workloads if workloads is None else workloads,
        is_mixed=random.random() < 0.2,
        heals_core_only=random.random() < 0.2,
    )
