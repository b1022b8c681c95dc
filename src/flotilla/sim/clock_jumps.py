"""Jumps of one node's wall clock, in every run: to anywhere within a year, back again, and once more.

One clock is a minority of every cluster, so a jump may change nothing: the other clocks only drift. When faults end the
clock stays where it is.
"""

from random import Random

from flotilla.sim.cluster import Cluster
from flotilla.sim.devices.world import SECOND


class ClockJumps:
    __slots__ = ("_cluster", "_is_over", "_jumped_us", "_random")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._random: Random = cluster.world.stream("clock jumps")
        #: How far the clock is from where it would be.
        self._jumped_us = 0
        self._is_over = False

    def start(self) -> None:
        delay_us = int(self._random.random() * self._cluster.plan.chaos_us / 2)
        self._cluster.world.after(delay_us, self._jump)

    def end(self) -> None:
        self._is_over = True

    def _jump(self) -> None:
        if self._is_over:
            return
        random, plan = self._random, self._cluster.plan
        if self._jumped_us and random.random() < 0.5:
            distance_us = -self._jumped_us
        else:
            distance_us = int(random.uniform(-plan.clock_jump_s_max, plan.clock_jump_s_max)) * SECOND
        self._jumped_us += distance_us
        self._cluster.sometimes.seen("clock jumped")
        self._cluster.trace.note(plan.clock_victim, f"has its clock set by {distance_us // SECOND} s")
        self._cluster.nodes[plan.clock_victim].clock.jump(distance_us)
        self.start()
