"""A simulated host and the process on it: clocks, speed, threads, life and death.

A process is killed (its host goes on and resets its connections), loses power with its host (nobody hears of it, and
its disk keeps what was synced), or is paused and goes on later. Nothing of a dead process runs again: its
callbacks, timers and threads are dropped, and what its last words try to do has no effect.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final
from zlib import crc32

from flotilla import machine
from flotilla.machine import Lane, Machine
from flotilla.sim.devices.clock import EPOCH_MS, NodeClock
from flotilla.sim.devices.crash import SimulatedCrash
from flotilla.sim.devices.disk import SimDisk
from flotilla.sim.devices.world import World

#: Where the monotonic clocks of all hosts begin: no time is 0.
_BOOTED_US: Final = 1_000_000_000
#: What a process may open.
DESCRIPTORS_MAX: Final = 4_096
#: How long an iteration of a loop comes after the one before, on a host with nothing else to do.
_TURN_US: Final = 20
#: How long the disk takes for a write with its sync, and what it adds at random.
_SYNC_US: Final = 100


class Host:
    """A machine with an address, a disk and clocks. One process runs on it at a time."""

    def __init__(self, world: World, name: str, address: str) -> None:
        self.world = world
        self.name = name
        self.address = address
        self.clock = NodeClock(steady_offset_us=_BOOTED_US)
        self.disk = SimDisk(world.stream(f"{name}/disk"))
        self.is_powered = True
        self.process: Process | None = None
        #: Times how much slower it is than an idle one.
        self.slowness = 1
        #: How much slower its disk is than a fast one.
        self.disk_slowness = 1
        self.process_count = 0


class Process:
    def __init__(
        self,
        host: Host,
        make_loop: Callable[["Process"], Any],
        descriptors_max: int = DESCRIPTORS_MAX,
    ) -> None:
        host.process_count += 1
        host.process = self
        self.host = host
        self.world = host.world
        self.name = f"{host.name}#{host.process_count}"
        self.number = host.process_count
        #: Of this process in the digest of the run.
        self.mark = crc32(self.name.encode())
        self.descriptors_max = descriptors_max
        self.is_alive = True
        self.is_paused = False
        #: Neither dead nor paused.
        self.is_running = True
        self.machine = SimMachine(self)
        self.lanes: list[SimLane] = []
        #: Open sockets, in the order in which they were opened.
        self.sockets: dict[Any, None] = {}
        #: Listening sockets by port.
        self.listening: dict[int, Any] = {}
        #: Exceptions that nobody handled.
        self.failures: list[dict[str, Any]] = []
        self._chance = self.world.stream(f"{self.name}/turns")
        self._streams = 0
        #: Time that the loop has spent on its disk in this iteration; within a thread, what its action still takes,
        #: below 0: such an action runs at its end.
        self.spent_us = 0
        self._is_in_lane = False
        self.loop: Any = make_loop(self)

    # Time.

    def steady_us(self) -> int:
        return self.host.clock.steady_us(self.world.now_us)

    def world_us(self, steady_s: float) -> int:
        """The world's time when this process's monotonic clock shows that; never before."""
        now_us = self.world.now_us
        left_us = steady_s * 1_000_000 - self.steady_us()
        if left_us <= 0:
            return now_us
        return now_us + int(left_us * 1_000_000 / (1_000_000 + self.host.clock.drift_ppm)) + 1

    def delay_us(self) -> int:
        """Until the next iteration of the loop."""
        spent_us = 0
        if not self._is_in_lane:
            # What an action of a thread spends is not the loop's.
            spent_us, self.spent_us = self.spent_us, 0
        return spent_us + self.turn_us()

    def turn_us(self) -> int:
        """Until the host has time for it."""
        return 1 + int(self._chance.random() * _TURN_US * self.host.slowness)

    def spend(self, us: int) -> None:
        """Code of this iteration waits for something."""
        self.spent_us += us

    def sync(self) -> None:
        """The code that runs now has synced its disk."""
        if self._is_in_lane:
            self.spent_us = 0
        else:
            self.spend(self.draw_sync_us())

    def act(self, action: Callable[[], None], took_us: int) -> None:
        """An action of a thread that has taken this long."""
        spent_us, self.spent_us, self._is_in_lane = self.spent_us, -took_us, True
        before = self.enter()
        try:
            action()
        except SimulatedCrash:
            # The power failed in the middle of it.
            pass
        finally:
            self.leave(before)
            self.spent_us, self._is_in_lane = spent_us, False

    def draw_sync_us(self) -> int:
        """How long one write and sync takes."""
        slowness = self.host.disk_slowness
        return int(_SYNC_US * slowness * (0.5 + self._chance.random()))

    def stream(self) -> Random:
        self._streams += 1
        return self.world.stream(f"{self.name}/{self._streams}")

    # Whose turn it is.

    def enter(self) -> Machine:
        return machine.enter(self.machine)

    def leave(self, before: Machine) -> None:
        machine.enter(before)

    # Life and death.

    def pause(self) -> None:
        if self.is_alive:
            self.is_paused = True
            self.is_running = False

    def has_stopped(self) -> bool:
        """A call, so that it is asked anew: anything may kill or pause the process."""
        return not self.is_running

    def resume(self) -> None:
        if self.is_alive and self.is_paused:
            self.is_paused = False
            self.is_running = True
            self.loop.resume()
            for lane in self.lanes:
                lane.resume()

    def die(self, *, is_heard: bool) -> None:
        """Ends the process. `is_heard`: its host lives on and resets its connections."""
        if not self.is_alive:
            return
        self.is_alive = self.is_running = False
        self.host.process = None
        self.loop.bury()
        for lane in self.lanes:
            lane.clear()
        for listening in list(self.listening.values()):
            listening.close()
        for each in list(self.sockets):
            each.orphan(is_heard=is_heard)
        self.sockets.clear()

    def unhandled(self, context: dict[str, Any]) -> None:
        """An exception that nobody handled."""
        if self.is_alive:
            self.failures.append(context)


class SimLane:
    """A simulated thread: each action runs as one event, some time after the one before."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._actions: deque[Callable[[], None]] = deque()
        self._is_due = False
        #: How long the next action takes.
        self._takes_us = 0
        process.lanes.append(self)

    def put(self, action: Callable[[], None]) -> None:
        self._actions.append(action)
        self._schedule()

    def close(self, wait_s: float | None = None) -> None:
        while self._actions and self._process.is_alive:
            self._actions.popleft()()
        self.clear()
        if self in self._process.lanes:
            self._process.lanes.remove(self)

    def clear(self) -> None:
        self._actions.clear()

    def resume(self) -> None:
        self._is_due = False
        self._schedule()

    def _schedule(self) -> None:
        process = self._process
        if self._actions and not self._is_due and process.is_running:
            self._is_due = True
            self._takes_us = process.draw_sync_us()
            process.world.after(self._takes_us, self._work)

    def _work(self) -> None:
        self._is_due = False
        process = self._process
        if not self._actions or not process.is_running:
            return
        action = self._actions.popleft()
        process.act(action, self._takes_us)
        self._schedule()


class SimMachine(Machine):
    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._clock = process.host.clock

    def now_ms(self) -> int:
        return EPOCH_MS + self._clock.wall_us(self._world.now_us) // 1_000

    def steady_ms(self) -> int:
        return self._clock.steady_us(self._world.now_us) // 1_000

    def uptime_ns(self) -> int:
        return self._clock.steady_us(self._world.now_us) * 1_000

    def elapsed_ns(self) -> int:
        return (self._clock.steady_us(self._world.now_us) + self._process.spent_us) * 1_000

    def chance(self) -> Random:
        return self._process.stream()

    def secret(self, count: int) -> bytes:
        return self._process.stream().randbytes(count)

    def lane(self, name: str) -> Lane:
        return SimLane(self._process)

    def listen(self, family: int, address: tuple[object, ...]) -> Any:
        return self._process.loop.listen(address)

    def descriptors_max(self) -> int:
        return self._process.descriptors_max

    def host_name(self) -> str:
        return self._process.host.name

    def process_id(self) -> int:
        return self._process.number
