"""Clients that are paused, as by a debugger or a suspended machine."""

from flotilla.sim.devices.world import SECOND
from flotilla.sim.whole.faults.trouble import Trouble
from flotilla.sim.whole.process import Process


class ClientFaults:
    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble
        self._chance = trouble.chance

    def pause(self) -> None:
        """Its connections stay open, and its leases end. When it runs again, all its time limits are over at once."""
        trouble = self._trouble
        running = [process for process in self._processes() if process.is_running]
        if running:
            process = self._chance.choice(running)
            length_us = trouble.length_us()
            trouble.simulation.tell(f"{process.host.name} freezes for {length_us / SECOND:.1f} s")
            trouble.simulation.note("client paused")
            trouble.simulation.history.frozen(process.host.name, length_us)
            process.pause()
            trouble.later(length_us, process.resume)

    def heal(self) -> None:
        for process in self._processes():
            process.resume()

    def _processes(self) -> list[Process]:
        brokers = {broker.host for broker in self._trouble.cluster.brokers.values()}
        hosts = [host for host in self._trouble.cluster.internet.hosts if host not in brokers]
        return [host.process for host in hosts if host.process is not None]
