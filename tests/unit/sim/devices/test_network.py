"""Frames pass, are lost, repeated and reordered as the weather says; hints follow what can be heard."""

from flotilla.sim.devices.network import Network, Weather
from flotilla.sim.devices.world import SECOND, World


class Cluster:
    def __init__(self, weather: Weather | None = None, nodes: int = 3) -> None:
        self.world = World(5)
        self.frames: list[tuple[int, int, bytes]] = []
        self.hints: list[tuple[int, int, bool]] = []
        self.network = Network(
            self.world,
            weather or Weather(),
            lambda to, sender, frame: self.frames.append((to, sender, frame)),
            lambda node, peer, is_up: self.hints.append((node, peer, is_up)),
        )
        for node in range(1, nodes + 1):
            self.network.add(node)

    def send_many(self, count: int) -> list[int]:
        for number in range(count):
            self.network.send(1, 2, number.to_bytes(4, "big"))
        self.run(10)
        return [int.from_bytes(frame, "big") for _, _, frame in self.frames]

    def run(self, seconds: float) -> None:
        self.world.run_until(self.world.now_us + int(seconds * SECOND))


def test_calm_links_keep_all_frames_in_order() -> None:
    assert Cluster().send_many(200) == list(range(200))


def test_loss_repetition_and_reordering() -> None:
    lossy = Cluster(Weather(loss=0.3)).send_many(500)
    assert lossy == sorted(lossy)
    assert 250 < len(lossy) < 450
    repeated = Cluster(Weather(repeat=0.3)).send_many(500)
    assert len(repeated) > 550
    assert set(repeated) == set(range(500))
    reordered = Cluster(Weather(reorder=0.3, latency_spread_us=50_000)).send_many(500)
    assert sorted(reordered) == list(range(500))
    assert reordered != list(range(500))


def test_a_cut_is_one_way() -> None:
    cluster = Cluster()
    cluster.network.cut(1, 2)
    cluster.network.send(1, 2, b"lost")
    cluster.network.send(2, 1, b"heard")
    cluster.run(1)
    assert cluster.frames == [(1, 2, b"heard")]


def test_a_message_in_flight_arrives_although_the_link_is_cut() -> None:
    cluster = Cluster()
    cluster.network.send(1, 2, b"early")
    cluster.network.cut(1, 2)
    cluster.run(1)
    assert cluster.frames == [(2, 1, b"early")]


def test_partition_and_heal() -> None:
    cluster = Cluster(nodes=5)
    cluster.network.partition([1, 2])
    assert cluster.network.is_cut(1, 3)
    assert cluster.network.is_cut(5, 2)
    assert not cluster.network.is_cut(1, 2)
    assert not cluster.network.is_cut(3, 5)
    cluster.network.heal()
    assert not cluster.network.has_cuts


def test_an_announced_death_is_known_at_once() -> None:
    cluster = Cluster()
    cluster.network.set_heard(1, False, announced=True)
    cluster.run(0.1)
    assert sorted(cluster.hints) == [(2, 1, False), (3, 1, False)]
    cluster.network.set_heard(1, True)
    cluster.run(1)
    assert sorted(cluster.hints[2:]) == [(2, 1, True), (3, 1, True)]


def test_a_cut_hides_the_announcement_until_silence_reveals_it() -> None:
    cluster = Cluster()
    cluster.network.cut(1, 2)
    cluster.network.set_heard(1, False, announced=True)
    cluster.run(2.5)
    assert cluster.hints == [(3, 1, False)]
    cluster.run(1)
    assert cluster.hints == [(3, 1, False), (2, 1, False)]


def test_a_silent_peer_is_reported_after_a_while_and_once() -> None:
    cluster = Cluster()
    cluster.network.cut(1, 2)
    cluster.run(2.5)
    assert cluster.hints == []
    cluster.run(10)
    assert cluster.hints == [(2, 1, False)]
    cluster.network.mend(1, 2)
    cluster.run(1)
    assert cluster.hints == [(2, 1, False), (2, 1, True)]


def test_a_short_silence_is_not_noticed() -> None:
    cluster = Cluster()
    cluster.network.cut(1, 2)
    cluster.run(1)
    cluster.network.mend(1, 2)
    cluster.run(10)
    assert cluster.hints == []


def test_a_quick_restart_is_still_a_broken_connection() -> None:
    cluster = Cluster(nodes=2)
    cluster.network.set_heard(1, False, announced=True)
    cluster.network.set_heard(1, True)
    cluster.run(1)
    assert cluster.hints == [(2, 1, False), (2, 1, True)]


def test_a_new_process_learns_again_which_nodes_are_down() -> None:
    cluster = Cluster(nodes=2)
    cluster.network.set_heard(1, False)
    cluster.run(10)
    cluster.network.forget(2)
    cluster.run(10)
    assert cluster.hints == [(2, 1, False), (2, 1, False)]
