"""Brokers that die, stop, pause, starve, and come back."""

from flotilla.sim.devices.world import SECOND
from flotilla.sim.whole.cluster import Broker
from flotilla.sim.whole.faults.trouble import Trouble
from flotilla.sim.whole.process import DESCRIPTORS_MAX

#: A power cut waits for a disk operation so long at most.
_AMBUSH_US = 5 * SECOND
#: A supervisor starts a process again that ended by itself.
SUPERVISOR_US = 1 * SECOND
#: What a broker may open when its limit is low; it needs 192.
_FEW_DESCRIPTORS = (192, 200, 224)


class BrokerFaults:
    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble
        self._chance = trouble.chance
        self._is_rolling = False

    # Death.

    def kill(self) -> None:
        broker = self._trouble.target()
        if broker.is_up:
            self._trouble.tell(broker, "is killed")
            broker.kill()
            self.start_later(broker)

    def cut_power(self) -> None:
        broker = self._trouble.target()
        if broker.is_up:
            self._trouble.tell(broker, "loses power")
            broker.cut_power()
            self.start_later(broker)

    def cut_power_in_write(self) -> None:
        """The power fails in the middle of a disk operation soon."""
        broker = self._trouble.target()
        if broker.is_up:
            starts = broker.start_count
            broker.host.disk.interrupt_after(int(self._chance.random() * 20))
            self._trouble.later(_AMBUSH_US, self._after_ambush, broker, starts)
            broker.on_interrupted = lambda: self._interrupted(broker)

    def _interrupted(self, broker: Broker) -> None:
        self._trouble.tell(broker, "loses power while it writes to its disk")
        self._trouble.simulation.note("power lost in a disk operation")
        self.start_later(broker)

    def _after_ambush(self, broker: Broker, starts: int) -> None:
        if broker.start_count == starts:
            broker.host.disk.interrupt_after(-1)

    def black_out(self) -> None:
        self._trouble.simulation.tell("all brokers lose power")
        self._trouble.simulation.note("all brokers lost power")
        for broker in self._trouble.members():
            if broker.is_up:
                broker.cut_power()
            self.start_later(broker)

    def start_later(self, broker: Broker) -> None:
        """One time in four the power goes again while it recovers."""
        is_cut_again = self._chance.random() < 0.25
        operations = int(self._chance.random() * 40) if is_cut_again else -1
        self._trouble.later(self._trouble.length_us(), self.start, broker, operations)

    def start(self, broker: Broker, operations: int = -1) -> None:
        if broker.is_up or broker.node in self._trouble.held or broker.node in self._trouble.removed:
            return
        self._trouble.tell(broker, "starts")
        if operations >= 0:
            broker.host.disk.interrupt_after(operations)
            broker.on_interrupted = lambda: self._interrupted(broker)
        broker.start()

    def ended(self, broker: Broker) -> None:
        """A broker ended by itself, for a fault: its supervisor starts it again."""
        self._trouble.later(SUPERVISOR_US, self.start, broker)

    # Orderly ends.

    def restart(self) -> None:
        broker = self._trouble.target()
        if broker.is_running:
            self._trouble.tell(broker, "is restarted in order")
            broker.stop(lambda: self._come_back(broker, 1 + int(self._chance.random() * SECOND)))

    def _come_back(self, broker: Broker, delay_us: int) -> None:
        """It has stopped. At once if everything has healed meanwhile: nobody else starts it then."""
        if self._trouble.is_over:
            self.start(broker)
        else:
            self._trouble.later(delay_us, self.start, broker)

    def roll(self) -> None:
        """Restarts all, one after the other, each when the one before is back."""
        if not self._is_rolling:
            self._is_rolling = True
            self._trouble.simulation.tell("all brokers are restarted in order, one by one")
            self._roll(list(self._trouble.members()))

    def _roll(self, left: list[Broker]) -> None:
        if not left:
            self._is_rolling = False
            return
        broker, rest = left[0], left[1:]
        if not broker.is_running:
            self._trouble.later(SECOND, self._roll, rest)
            return

        def stopped() -> None:
            self._come_back(broker, SECOND // 2)
            self._trouble.later(3 * SECOND, self._roll, rest)

        broker.stop(stopped)

    # Slow and short of something.

    def pause(self) -> None:
        broker = self._trouble.target()
        process = broker.process
        if process is not None and process.is_running:
            length_us = self._trouble.length_us()
            self._trouble.tell(broker, f"freezes for {length_us / SECOND:.1f} s")
            process.pause()
            self._trouble.later(length_us, process.resume)

    def starve(self) -> None:
        broker = self._trouble.target()
        broker.host.slowness = self._chance.choice((20, 500, 5_000))
        self._trouble.tell(broker, f"gets {broker.host.slowness} times less of its processor")
        self._trouble.later(self._trouble.length_us(), self.feed, broker)

    @staticmethod
    def feed(broker: Broker) -> None:
        broker.host.slowness = 1

    def run_out_of_descriptors(self) -> None:
        """Nothing more can be opened for a while; or the next start has a low limit."""
        broker = self._trouble.target()
        process = broker.process
        if process is None or not process.is_alive:
            return
        if self._chance.random() < 0.3:
            broker.descriptors_max = self._chance.choice(_FEW_DESCRIPTORS)
            self._trouble.tell(broker, f"is killed and will start with {broker.descriptors_max} descriptors")
            broker.kill()
            self.start_later(broker)
            return
        self._trouble.tell(broker, "runs out of descriptors")
        process.descriptors_max = len(process.sockets) + self._chance.choice((0, 1, 3))
        broker.host.disk.is_out_of_descriptors = self._chance.random() < 0.5
        self._trouble.later(self._trouble.length_us(), self.give_descriptors, broker)

    @staticmethod
    def give_descriptors(broker: Broker) -> None:
        broker.host.disk.is_out_of_descriptors = False
        if broker.process is not None:
            broker.process.descriptors_max = broker.descriptors_max

    # The end.

    def heal(self, brokers: list[Broker]) -> None:
        for broker in brokers:
            broker.host.disk.interrupt_after(-1)
            broker.descriptors_max = DESCRIPTORS_MAX
            self.feed(broker)
            self.give_descriptors(broker)
            if broker.process is not None:
                broker.process.resume()
            if broker.node not in self._trouble.removed and not broker.is_up:
                self._trouble.tell(broker, "starts")
                broker.start()
