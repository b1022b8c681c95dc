"""A thousand partitions with ten in use, beside ten; and the cost of an idle node."""

from bench.figure import Figure, Goal, relate
from bench.options import BenchOptions
from bench.scale.cluster import AREA, beside, interpreter_mb, started
from flotilla.cli.bench.probes import scratch

ACTIVE = 10
MANY = 1_000


def measure(options: BenchOptions) -> list[Figure]:
    rest_s = options.pick(quick=3, full=10)
    with (
        scratch(options.folder, "partitions") as folder,
        started(folder / "small") as small,
        started(folder / "large") as large,
    ):
        small.wait_at_rest()
        empty_mb, empty_shares = small.resident_mb(), small.busy_shares(rest_s)
        for cluster in (small, large):
            cluster.create("active", ACTIVE)
        large.create("idle", MANY - ACTIVE)
        large.wait_at_rest()
        many_mb, many_shares = large.resident_mb(), large.busy_shares(rest_s)
        figures = beside(
            large,
            small,
            f"{MANY:,} partitions, {ACTIVE} in use",
            f"{ACTIVE} partitions",
            rounds=options.rounds,
            count=options.pick(quick=10_000, full=500_000),
            goal=Goal(0.8),
        )
    core = "one core"
    return [
        relate(
            AREA,
            "idle broker",
            "of a core",
            pairs=[(each, 1.0) for each in empty_shares],
            probe_name=core,
            goal=Goal(0.01, at_most=True),
        ),
        relate(
            AREA,
            "idle broker, memory",
            "MB",
            pairs=[(each, interpreter_mb()) for each in empty_mb],
            probe_name="Python alone",
            goal=Goal(None),
        ),
        relate(
            AREA,
            f"idle broker, {MANY:,} partitions",
            "of a core",
            pairs=[(each, 1.0) for each in many_shares],
            probe_name=core,
            goal=Goal(0.02, at_most=True),
        ),
        relate(
            AREA,
            f"idle broker, {MANY:,} partitions, memory",
            "MB",
            pairs=list(zip(many_mb, empty_mb, strict=True)),
            probe_name="without them",
            goal=Goal(None),
        ),
        *figures,
    ]
