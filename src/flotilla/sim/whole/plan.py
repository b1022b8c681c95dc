"""What one seed of the whole product is about: how many brokers and clients, which faults, which workloads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from flotilla.sim.devices.world import SECOND
from flotilla.types.limits import KIB, MIB, PROPOSAL_COUNT_MAX

NODES: Final = (3, 3, 3, 4, 5)
DURATION_S: Final = 60
#: Kinds of clients in one run.
WORKLOADS_MAX: Final = 3
#: The share of faults that a seed has, and of seeds that have one of the later workloads.
_FAULT_SHARE: Final = 0.4
_LATER_SHARE: Final = 0.25
#: In a list of faults, the mark of a plan in which the clock jumps, as it does where faults are drawn.
PLANNED_JUMPS: Final = "planned-jumps"
#: Between two faults, on average.
FAULT_INTERVAL_US: Final = 4 * SECOND


@dataclass(frozen=True, slots=True)
class WholePlan:
    seed: int
    nodes: int
    duration_us: int
    #: Names in faults.faults; empty: nothing breaks.
    faults: tuple[str, ...]
    #: Names of workloads.
    workloads: tuple[str, ...]
    #: Of all brokers. Small limits make rare paths common: states are restored often, and logs refuse what is too much.
    settings: Mapping[str, Any] = field(default_factory=dict)
    #: One setting of the cluster differs between its brokers.
    is_mixed: bool = False
    #: After the faults a majority is healed, and the rest stays broken for ever.
    heals_core_only: bool = False
    #: Between two faults, on average.
    fault_interval_us: int = FAULT_INTERVAL_US
    #: The wall clock of one broker jumps forward and back, whether `jump` is among the faults or not.
    jumps_clock: bool = False

    @property
    def strikes(self) -> tuple[str, ...]:
        """Faults by the names that give the same run when they are named."""
        return (*self.faults, PLANNED_JUMPS) if self.jumps_clock else self.faults


def draw_whole_plan(
    seed: int,
    *,
    known_faults: tuple[str, ...],
    known_workloads: tuple[str, ...],
    later_faults: tuple[str, ...] = (),
    later_workloads: tuple[str, ...] = (),
    duration_s: int = DURATION_S,
    faults: tuple[str, ...] | None = None,
    workloads: tuple[str, ...] | None = None,
    nodes: int | None = None,
) -> WholePlan:
    """Each argument that is given takes the place of a drawn one.

    What is called later is drawn from a stream of its own, and changes nothing else of the plan.
    """
    random = Random(f"whole plan {seed}")
    drawn_nodes = random.choice(NODES)
    drawn_faults = tuple(name for name in known_faults if random.random() < _FAULT_SHARE)
    count = random.randint(1, min(len(known_workloads), WORKLOADS_MAX))
    drawn_workloads = sorted(random.sample(known_workloads, count))
    later = Random(f"whole plan {seed}, later")
    drawn_faults += tuple(name for name in later_faults if later.random() < _FAULT_SHARE)
    if later_workloads and later.random() < _LATER_SHARE:
        drawn_workloads[-1] = later.choice(later_workloads)
    return WholePlan(
        seed=seed,
        nodes=drawn_nodes if nodes is None else nodes,
        duration_us=duration_s * SECOND,
        faults=drawn_faults if faults is None else tuple(name for name in faults if name != PLANNED_JUMPS),
        workloads=tuple(drawn_workloads) if workloads is None else workloads,
        settings=_draw_settings(seed),
        is_mixed=random.random() < 0.2,
        heals_core_only=random.random() < 0.2,
        # Faults that are named are all that strikes.
        jumps_clock=faults is None or PLANNED_JUMPS in faults,
    )


def _draw_settings(seed: int) -> dict[str, Any]:
    random = Random(f"whole settings {seed}")
    return {
        "snapshot_entries": random.choice((10, 100, 100)),
        "proposal_count_max": random.choice((8, PROPOSAL_COUNT_MAX, PROPOSAL_COUNT_MAX)),
        "segment_file_bytes": random.choice((64 * KIB, 1 * MIB)),
    }
