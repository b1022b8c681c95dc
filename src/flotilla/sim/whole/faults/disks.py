"""Disks that are slow, full, fail, cannot be read, or rot; and clocks."""

from random import Random
from typing import Final

from flotilla.broker.cluster_clock import AGREE_MS
from flotilla.codec.batch.facts import span_of
from flotilla.runtime.data_dir_identity import IDENTITY_FILE, DataDir
from flotilla.sim.devices.clock import DRIFT_PPM_MAX
from flotilla.sim.devices.disk import UNLIMITED_BYTES, SimDisk
from flotilla.sim.devices.world import MS, SECOND
from flotilla.sim.whole.cluster import Broker
from flotilla.sim.whole.faults.trouble import Trouble
from flotilla.storage.disk_folder import DiskFolder
from flotilla.storage.options import StoreOptions
from flotilla.storage.store import NodeStore
from flotilla.storage.store_format import FORMAT_FILE
from flotilla.types.errors import CorruptionError
from flotilla.types.limits import MIB

#: Paths begin with these. Most of what a disk holds is in the first two.
_ROTTEN = ("groups/", "groups/", "journal/", "journal/", IDENTITY_FILE, FORMAT_FILE)
#: What a clock jumps within: a moment, an hour, a year.
_RANGES_S = (90, 3_600, 365 * 24 * 3_600)
#: A clock that is less wrong agrees with the others: where few are up, cluster time may be its time.
_WRONG_US_MIN: Final = (AGREE_MS + 5_000) * MS


class DiskFaults:
    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble
        self._chance = trouble.chance
        #: By the fault `jump`, and in all.
        self._struck_us = 0
        self._jumped_us = 0

    def slow(self) -> None:
        host = self._trouble.target().host
        host.disk_slowness = self._chance.choice((20, 200, 5_000))
        host.disk.is_cold = True
        self._trouble.simulation.tell(f"the disk of {host.name} is {host.disk_slowness} times slower")
        self._trouble.later(self._trouble.length_us(), self.mend, host.name)

    def fill(self) -> None:
        broker = self._trouble.target()
        self._trouble.tell(broker, "runs out of room on its disk")
        disk = broker.host.disk
        disk.set_capacity(disk.used_bytes + self._chance.randrange(4096))
        self._trouble.later(self._trouble.length_us(), self.mend, broker.host.name)

    def fail_writes(self) -> None:
        broker = self._trouble.target()
        self._trouble.tell(broker, "fails to write to its disk")
        broker.host.disk.fail_next_write(self._chance.choice((1, 1, 3)))

    def fail_syncs(self) -> None:
        broker = self._trouble.target()
        self._trouble.tell(broker, "fails to sync its disk")
        broker.host.disk.fail_next_sync(self._chance.choice((1, 1, 3)))

    def fail_reads(self) -> None:
        broker = self._trouble.target()
        self._trouble.tell(broker, "cannot read its disk")
        broker.host.disk.is_unreadable = True
        self._trouble.later(self._trouble.length_us(), self.mend, broker.host.name)

    def rot(self) -> None:
        """Damages durable bytes of the victim, where its store still opens: what else is lost, the others have."""
        trouble = self._trouble
        broker = trouble.cluster.brokers[trouble.victim]
        if broker.node in (trouble.held | trouble.removed) or not trouble.can_spare({broker.node}):
            return
        disk = broker.host.disk
        damage = disk.rot(self._chance.choice(_ROTTEN))
        if damage is None:
            return
        if not _opens(broker):
            disk.undo(damage)
            return
        trouble.is_victim_damaged = True
        trouble.tell(broker, f"has {damage.length} rotten bytes in {damage.path}")

    def mend(self, name: str) -> None:
        for broker in self._trouble.cluster.brokers.values():
            if broker.host.name == name:
                host = broker.host
                host.disk_slowness = 1
                host.disk.is_cold = host.disk.is_unreadable = False
                host.disk.set_capacity(UNLIMITED_BYTES)

    def heal(self, brokers: list[Broker]) -> None:
        for broker in brokers:
            self.mend(broker.host.name)
            broker.host.disk.fail_next_write(0)
            broker.host.disk.fail_next_sync(0)
        if len(brokers) < len(self._trouble.cluster.brokers) and self._jumped_us:
            # A core may have no majority of right clocks without this one: then nothing that waits for a time comes.
            broker = self._trouble.cluster.brokers[self._trouble.clock_victim]
            self._trouble.tell(broker, "has its clock set right")
            broker.host.clock.jump(-self._jumped_us)
            self._jumped_us = 0

    # Clocks. They stay where they are when everything heals, unless a core alone does.

    def drift(self) -> None:
        """Within a millionth of what machines do: everything the product promises holds for such clocks."""
        broker = self._trouble.target()
        broker.host.clock.drift(self._chance.randint(-DRIFT_PPM_MAX, DRIFT_PPM_MAX), self._trouble.world.now_us)

    def jump(self) -> None:
        """One wall clock, anywhere within a year or back again."""
        if self._struck_us and self._chance.random() < 0.4:
            distance_us = -self._struck_us
        else:
            distance_us = int(self._chance.uniform(-1, 1) * self._chance.choice(_RANGES_S)) * SECOND
        self._struck_us += distance_us
        self._jump(distance_us)

    def plan_jumps(self, duration_us: int) -> None:
        """One jump forward and one back, in either order, each in its half of the run; one of them within a year.

        They have a stream of their own: all other faults of the seed strike as they would without them.
        """
        chance = self._trouble.simulation.stream("planned jumps")
        half_us = duration_us // 2
        signs = chance.sample((1, -1), 2)
        ranges_s = chance.sample((_RANGES_S[-1], chance.choice(_RANGES_S)), 2)
        for number, (sign, range_s) in enumerate(zip(signs, ranges_s, strict=True)):
            at_us = number * half_us + int(chance.random() * half_us)
            self._trouble.later(at_us, self._jump, sign * chance.randint(1, range_s) * SECOND)

    def _jump(self, distance_us: int) -> None:
        broker = self._trouble.cluster.brokers[self._trouble.clock_victim]
        wrong_us = self._jumped_us + distance_us
        if 0 < abs(wrong_us) < _WRONG_US_MIN:
            distance_us += _WRONG_US_MIN if wrong_us > 0 else -_WRONG_US_MIN
        self._jumped_us += distance_us
        self._trouble.tell(broker, f"has its clock set by {distance_us // SECOND} s")
        self._trouble.simulation.note("clock jumped")
        broker.host.clock.jump(distance_us)


def _opens(broker: Broker) -> bool:
    """Whether a broker would start on what a power loss leaves of this disk."""
    copy = SimDisk(Random(0))
    copy.put_back(broker.host.disk.durable_image())
    try:
        DataDir.claim(DiskFolder(copy), broker.node, broker.settings.cluster_name)
        NodeStore.open(copy, StoreOptions(journal_bytes=MIB, reserve_bytes=MIB // 4, segment_bytes=MIB), span_of)
    except CorruptionError:
        return False
    return True
