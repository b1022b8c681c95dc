"""Client processes that die and come back: each life is a new process on the same host."""

from collections.abc import Callable, Coroutine
from typing import Any, Final

from flotilla.sim.devices.world import SECOND
from flotilla.sim.whole.process import Process
from flotilla.sim.whole.simulation import Simulation

#: Between two lives, at most.
_PAUSE_US: Final = 5 * SECOND
#: How many deaths the other side hears of: the rest are those of a machine that loses its power.
_HEARD: Final = 0.7


class Lives:
    def __init__(
        self,
        simulation: Simulation,
        name: str,
        main: Callable[[str], Coroutine[Any, Any, None]],
        *,
        life_s: float,
        died: Callable[[str], None] | None = None,
    ) -> None:
        """`main` is called with the name of the life, and returns when it leaves by itself, or when all is calm.

        `life_s`: how long a life lasts on average before it is cut off; `died` is called with its name then.
        """
        self.name = name
        #: It has left after everything was calm.
        self.is_over = False
        self._simulation = simulation
        self._main = main
        self._life_s = life_s
        self._died = died
        self._host = simulation.cluster.client_host(name)
        self._chance = simulation.stream(f"{name}/lives")
        self._process: Process | None = None
        self._number = 0
        self._is_calm = False

    @property
    def life(self) -> str:
        """The present life, or the last one."""
        return f"{self.name}.{self._number}"

    def start(self) -> None:
        self._live()

    def calm(self) -> None:
        """Nobody dies any more. Who is dead comes back once more."""
        self._is_calm = True

    def _live(self) -> None:
        self._number += 1
        number = self._number
        self._process = self._simulation.cluster.run(self._host, lambda: self._run(number))
        self._simulation.world.after(int(self._chance.expovariate(1 / self._life_s) * SECOND), self._die, number)

    async def _run(self, number: int) -> None:
        await self._main(self.life)
        self._simulation.world.after(0, self._left, number)

    def _left(self, number: int) -> None:
        """The process has come to its end by itself."""
        if number == self._number and self._process is not None and self._process.is_alive:
            self._process.die(is_heard=True)
            self._simulation.note("a client leaves")
            self._go_on()

    def _die(self, number: int) -> None:
        process = self._process
        if number == self._number and not self._is_calm and process is not None and process.is_alive:
            process.die(is_heard=self._chance.random() < _HEARD)
            self._simulation.history.cut(f"{self.name}.{number}")
            if self._died is not None:
                self._died(f"{self.name}.{number}")
            self._simulation.note("a client dies")
            self._simulation.tell(f"{self.name}.{number} dies")
            self._again()

    def _go_on(self) -> None:
        if self._is_calm:
            self.is_over = True
        else:
            self._again()

    def _again(self) -> None:
        self._simulation.world.after(int(self._chance.random() * _PAUSE_US), self._live)
