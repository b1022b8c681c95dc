"""The plan of a run: the size of the cluster, its settings, its network weather, and which faults it meets.

Swarm testing: every seed draws its own mix. Leaving a fault out is as telling as putting it in, since
one kind often hides what another would show. Tiny limits make rare paths common: files of a few KiB,
a snapshot every ten entries, one append in flight.
"""

from dataclasses import dataclass
from random import Random

from flotilla.raft.options import RaftOptions
from flotilla.replica.replica import ReplicaOptions
from flotilla.sim.devices.clock import TICK_US
from flotilla.sim.devices.network import Weather
from flotilla.sim.devices.world import MS, SECOND
from flotilla.storage.options import StoreOptions
from flotilla.types.ids import NodeId
from flotilla.types.limits import KIB, MIB

#: Everything that can be done to a cluster, with its weight when a seed has drawn it.
FAULTS: dict[str, int] = {
    "crash": 6,
    "kill": 3,
    "point": 6,
    "blackout": 2,
    "pause": 4,
    "partition": 4,
    "one-way": 3,
    "isolate": 4,
    "weather": 3,
    "slow-disk": 2,
    "sync-fail": 2,
    "write-fail": 2,
    "disk-full": 2,
    "rot": 3,
    "wipe": 2,
    "clock": 1,
    "membership": 6,
    "transfer": 3,
    "snapshot": 3,
    "unreadable": 2,
    "descriptors": 2,
    "put-back": 4,
}
#: Faults that were added later are drawn apart, so that older seeds keep their plans.
_LATER_FAULTS = ("unreadable", "descriptors", "put-back")
#: Faults that take copies away for good: with one of them only one disk may rot, which is then a minority.
_TAKING_AWAY = ("wipe", "membership")

#: How long the faulty phase of a seed is. Most are short, so that a swarm draws many plans; some bugs take a long one.
TICKS = (100, 150, 200, 300, 1000)
#: A shorter run meets as many faults and bursts of work as one of this length.
_WHOLE_TICKS = 600
#: With fewer nodes the one whose disk may be lost is no minority, and nothing is promised.
NODES_MIN = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a run draws before it begins."""

    seed: int
    nodes: int
    #: Nodes that start outside of every group and may be made members.
    spares: int
    groups: int
    chaos_us: int
    faults: tuple[str, ...]
    fault_interval_us: int
    #: The one node whose disk may be lost. One is a minority of every configuration of three and more.
    victim: NodeId
    weather: Weather
    drift_ppm_max: int
    clients: int
    think_us: int
    timeout_us: int
    read_share: float
    padding_bytes_max: int
    #: Work comes in bursts of about this many operations, with pauses in proportion: less than one operation a second.
    burst_operations: int
    idle_us: int
    raft: RaftOptions
    snapshot_entries: int
    trail_entries: int
    #: The log is the data, and retention keeps so many entries; 0: snapshots shorten the log.
    kept_entries: int
    store: StoreOptions

    @property
    def has_one_victim(self) -> bool:
        """Whether only the disk of `victim` may rot; otherwise any may, as long as the cluster can heal."""
        return any(fault in self.faults for fault in _TAKING_AWAY)

    @property
    def replica(self) -> ReplicaOptions:
        return ReplicaOptions(
            raft=self.raft,
            snapshot_entries=self.snapshot_entries,
            trail_entries=self.trail_entries,
            keeps_log=self.kept_entries > 0,
        )


def draw_plan(
    seed: int,
    *,
    nodes: int | None = None,
    ticks: int | None = None,
    faults: tuple[str, ...] | None = None,
) -> Plan:
    """The plan of a seed. Given values take the place of drawn ones and shift nothing else."""
    random = Random(f"{seed}/plan")
    drawn_nodes = 5 if random.random() < 0.25 else 3
    spares = random.choice((0, 1, 1, 2))
    groups = random.choice((1, 1, 1, 1, 2, 3))
    drawn_faults = _draw_faults(random, Random(f"{seed}/later faults"))
    burst_operations = random.choice((2, 5, 10, 30))
    count = drawn_nodes if nodes is None else nodes
    length = Random(f"{seed}/length").choice(TICKS) if ticks is None else ticks
    pace = min(1.0, length / _WHOLE_TICKS)
    chosen = drawn_faults if faults is None else faults
    return Plan(
        seed=seed,
        nodes=count,
        spares=spares if "membership" in chosen else 0,
        groups=groups,
        chaos_us=length * TICK_US,
        faults=chosen,
        fault_interval_us=int(random.choice((1, 3, 10, 20, 40)) * SECOND * pace),
        victim=1 + random.randrange(count),
        weather=draw_weather(random),
        drift_ppm_max=random.choice((0, 100, 10_000, 50_000)),
        clients=random.choice((1, 2, 3)),
        think_us=random.choice((10 * MS, 50 * MS, 200 * MS)),
        timeout_us=random.choice((1, 3, 10)) * SECOND,
        read_share=random.choice((0.1, 0.3, 0.6)),
        padding_bytes_max=random.choice((0, 16, 200, 2000)),
        burst_operations=burst_operations,
        idle_us=int(burst_operations * random.choice((1, 2, 3)) * SECOND * pace),
        raft=_draw_raft(random, Random(f"{seed}/spares")),
        snapshot_entries=random.choice((10, 20, 50, 200)),
        trail_entries=random.choice((0, 1, 5, 20)),
        kept_entries=Random(f"{seed}/retention").choice((0, 0, 0, 5, 50)),
        store=StoreOptions(
            journal_bytes=random.choice((16, 32, 256)) * KIB,
            reserve_bytes=64 * KIB,
            segment_bytes=random.choice((1 * KIB, 8 * KIB, 64 * KIB)),
            index_interval_bytes=random.choice((64, 512, 4096)),
            transfer_bytes=random.choice((512, 64 * KIB)),
            open_files_max=random.choice((2, 16)),
            direct_repair_bytes=Random(f"{seed}/repairs").choice((1, 1 * KIB, 512 * KIB)),
        ),
    )


def _draw_faults(random: Random, later: Random) -> tuple[str, ...]:
    """`later` draws the faults that were added later, so that older seeds keep their other settings."""
    dice = random.random()
    if dice < 0.05:
        return ()
    chance = random.choice((0.2, 0.5, 0.8))
    return tuple(name for name in FAULTS if (later if name in _LATER_FAULTS else random).random() < chance)


def draw_weather(random: Random) -> Weather:
    """From a calm room to a hostile sea."""
    dice = random.random()
    if dice < 0.3:
        return Weather()
    loss = random.choice((0.0, 0.0, 0.01, 0.1, 0.3))
    return Weather(
        latency_min_us=random.choice((100, 1000, 5000)),
        latency_spread_us=random.choice((500, 5000, 50_000)),
        tail_chance=random.choice((0.0, 0.01, 0.1)),
        tail_us=random.choice((10 * MS, 500 * MS, 3 * SECOND)),
        loss=loss,
        repeat=random.choice((0.0, 0.01, 0.2)),
        reorder=random.choice((0.0, 0.1, 0.5)),
        silence_us=random.choice((1, 3, 8)) * SECOND,
    )


def _draw_raft(random: Random, later: Random) -> RaftOptions:
    """`later` draws settings that were added later, so that older seeds keep their other settings."""
    return RaftOptions(
        quiesce_ticks=random.choice((0, 3, 3, 5, 5, 10, 10, 30)),
        succession_ticks=random.choice((0, 2)),
        append_bytes_max=random.choice((1, 200, 4 * KIB, 1 * MIB)),
        inflight_bytes_max=random.choice((1, 1 * KIB, 16 * MIB)),
        inflight_count_max=random.choice((1, 3, 256)),
        proposal_bytes_max=random.choice((500, 64 * MIB)),
        proposal_count_max=random.choice((2, 10, 8192)),
        apply_bytes_max=random.choice((1, 500, 8 * MIB)),
        read_count_max=random.choice((2, 4096)),
        snapshot_chunk_bytes_max=random.choice((100, 1 * KIB, 1 * MIB)),
        commit_news_ticks=later.choice((0, 1)),
        thrifty_bytes_max=later.choice((0, 500, 16 * KIB, 16 * KIB)),
    )
