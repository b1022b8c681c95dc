"""The faults of a run of the whole product: which strike, when, and how everything heals.

A fault is drawn now and then from those that the plan names. Each ends by itself after a drawn time, and all end with
`heal`. A plan may heal a core only: a majority of every group. The rest stays broken for ever, and the
core must make progress without it.
"""

from collections.abc import Callable
from typing import Final

from flotilla.sim.devices.world import SECOND
from flotilla.sim.whole.cluster import Broker
from flotilla.sim.whole.faults.backups import BackupFaults
from flotilla.sim.whole.faults.brokers import BrokerFaults
from flotilla.sim.whole.faults.clients import ClientFaults
from flotilla.sim.whole.faults.disks import DiskFaults
from flotilla.sim.whole.faults.network import NetworkFaults
from flotilla.sim.whole.faults.operator import Operator
from flotilla.sim.whole.faults.trouble import Trouble
from flotilla.sim.whole.plan import DURATION_S
from flotilla.sim.whole.simulation import Simulation
from flotilla.types.errors import DiskFullError, StorageFailedError

#: Names of all faults, and how often each strikes compared with the others.
FAULTS: Final[dict[str, int]] = {
    "kill": 3,
    "power": 3,
    "power-in-write": 3,
    "blackout": 1,
    "pause": 3,
    "restart": 2,
    "roll": 1,
    "starve": 2,
    "descriptors": 1,
    "cut": 2,
    "one-way": 2,
    "isolate": 2,
    "cut-client": 2,
    "slow-path": 2,
    "choppy": 1,
    "reset": 2,
    "dials": 1,
    "names": 1,
    "windows": 1,
    "full-queue": 1,
    "slow-disk": 2,
    "full-disk": 1,
    "write-fails": 1,
    "sync-fails": 1,
    "read-fails": 1,
    "rot": 2,
    "drift": 1,
    "jump": 2,
    "transfer": 2,
    "rebalance": 1,
    "drain": 1,
    "add": 1,
    "remove": 1,
    "wipe": 1,
    "replace": 1,
    "pause-client": 3,
    "put-back": 1,
}
#: They came later, and are drawn from a stream of their own: all else in a seed stays as it was.
LATER_FAULTS: Final = ("names", "windows", "pause-client", "put-back")
DRAWN_FAULTS: Final = tuple(name for name in FAULTS if name not in LATER_FAULTS)


class WholeFaults:
    def __init__(self, simulation: Simulation) -> None:
        self.count = 0
        self.healed: list[Broker] = []
        self._simulation = simulation
        self.trouble = trouble = Trouble(simulation)
        self._chance = trouble.chance
        self._brokers = BrokerFaults(trouble)
        self._disks = DiskFaults(trouble)
        self._network = NetworkFaults(trouble, self._brokers.start_later)
        self._operator = Operator(trouble)
        self._clients = ClientFaults(trouble)
        self._backups = BackupFaults(trouble, self._operator)
        self.actions = self._all_actions()
        assert set(self.actions) == set(FAULTS)
        self._kinds = [name for name in simulation.plan.faults if name in FAULTS]
        self._weights = [FAULTS[name] for name in self._kinds]

    def _all_actions(self) -> dict[str, Callable[[], None]]:
        brokers, disks, network, operator = self._brokers, self._disks, self._network, self._operator
        return {
            "kill": brokers.kill,
            "power": brokers.cut_power,
            "power-in-write": brokers.cut_power_in_write,
            "blackout": brokers.black_out,
            "pause": brokers.pause,
            "restart": brokers.restart,
            "roll": brokers.roll,
            "starve": brokers.starve,
            "descriptors": brokers.run_out_of_descriptors,
            "cut": network.cut,
            "one-way": network.cut_one_way,
            "isolate": network.isolate,
            "cut-client": network.cut_client,
            "slow-path": network.slow_path,
            "choppy": network.chop,
            "reset": network.reset,
            "dials": network.fail_dials,
            "names": network.change_names,
            "windows": network.narrow,
            "full-queue": network.fill_queues,
            "slow-disk": disks.slow,
            "full-disk": disks.fill,
            "write-fails": disks.fail_writes,
            "sync-fails": disks.fail_syncs,
            "read-fails": disks.fail_reads,
            "rot": disks.rot,
            "drift": disks.drift,
            "jump": disks.jump,
            "transfer": operator.transfer,
            "rebalance": operator.rebalance,
            "drain": operator.drain,
            "add": operator.add,
            "remove": operator.remove,
            "wipe": operator.wipe,
            "replace": operator.replace,
            "pause-client": self._clients.pause,
            "put-back": self._backups.put_back,
        }

    def start(self) -> None:
        if self._kinds:
            self._schedule()
        if self._simulation.plan.jumps_clock:
            self._disks.plan_jumps(min(self._simulation.plan.duration_us, DURATION_S * SECOND))

    def _schedule(self) -> None:
        interval_us = self._simulation.plan.fault_interval_us
        self.trouble.later(1 + int(self._chance.expovariate(1.0) * interval_us), self._strike)

    def _strike(self) -> None:
        self._schedule()
        kind = self._chance.choices(self._kinds, self._weights)[0]
        self.count += 1
        self.actions[kind]()

    def excuses(self, broker: Broker, failure: BaseException) -> bool:
        """Whether a fault explains that the broker ended by itself; if so, it is started again later."""
        is_excused = isinstance(failure, StorageFailedError | DiskFullError) and broker.has_met_disk_fault
        if is_excused:
            self.trouble.tell(broker, f"ends by itself: {failure}")
            self._simulation.note("broker ended by its disk")
            self._brokers.ended(broker)
        return is_excused

    def expelled(self, broker: Broker, code: str) -> bool:
        return self._operator.expelled(broker, code) or self._backups.expelled(broker, code)

    def heal(self) -> None:
        self.trouble.is_over = True
        rest = self._choose_rest() if self._simulation.plan.heals_core_only else []
        core = [broker for broker in self.trouble.cluster.brokers.values() if broker not in rest]
        self._network.heal()
        self._clients.heal()
        self._disks.heal(core)
        self._backups.finish()
        self._operator.finish()
        self._brokers.heal(core)
        self.healed = [broker for broker in core if broker.node not in self.trouble.removed]
        if rest:
            self._abandon(rest)

    # A core that is healed.

    def _choose_rest(self) -> list[Broker]:
        """Brokers without which every group has a majority, as many as there are."""
        trouble = self.trouble
        brokers = trouble.members()
        if trouble.is_victim_damaged:
            # The others are needed to mend it, unless it is the one that stays broken.
            brokers = [broker for broker in brokers if broker.node == trouble.victim]
        rest: list[Broker] = []
        for broker in self._chance.sample(brokers, len(brokers)):
            if trouble.can_spare({*trouble.removed, *(each.node for each in [*rest, broker])}):
                rest.append(broker)
        return rest

    def _abandon(self, rest: list[Broker]) -> None:
        for broker in rest:
            how = self._chance.choice(("down", "paused", "cut off"))
            self.trouble.tell(broker, f"stays {how} for ever")
            if how == "down":
                broker.cut_power()
            elif how == "paused" and broker.process is not None:
                broker.process.pause()
            else:
                self.trouble.cluster.internet.unplug(broker.host)
        self._simulation.note("healed a core only")
