"""Two nodes that behave: messages, order, size, going away and coming back."""

import asyncio

from flotilla.peers.handshake import KnownPeer
from flotilla.raft.messages import Append, Heartbeat
from tests.unit.peers.harness import NOWHERE, Recorder, append, heartbeat, network, pair, run, wait_pinged


def test_messages_go_both_ways_in_order() -> None:
    async def scenario() -> None:
        one, events_one, two, events_two = await pair()
        for commit in range(300):
            one.send(2, [heartbeat(1, 2, commit), heartbeat(1, 2, commit + 1000)])
        two.send(1, [heartbeat(2, 1, 5)])
        await events_two.wait_until(lambda: len(events_two.messages) == 600)
        await events_one.wait_until(lambda: len(events_one.messages) == 1)
        commits = [message.commit for _, message in events_two.messages if isinstance(message, Heartbeat)]
        assert commits == [commit + more for commit in range(300) for more in (0, 1000)]

    run(scenario)


def test_messages_sent_together_leave_in_one_frame() -> None:
    async def scenario() -> None:
        one, _, two, events_two = await pair(check_ms=100_000)
        one.send(2, [heartbeat(1, 2), heartbeat(1, 2)])
        assert one._links[2].counters.writes == 1
        await events_two.wait_until(lambda: len(events_two.messages) == 2)
        assert two.counters.received_frames == 1

    run(scenario)


def test_large_entries_arrive_whole() -> None:
    async def scenario() -> None:
        one, _, two, events_two = await pair(check_ms=300)
        bodies = [bytes([number]) * size for number, size in enumerate([10, 70_000, 17 << 20, 200_000, 3, 1 << 20])]
        one.send(2, [append(1, 2, body) for body in bodies])
        await events_two.wait_until(lambda: len(events_two.messages) == len(bodies))
        received = [bytes(m.entries[0].data) for _, m in events_two.messages if isinstance(m, Append)]
        assert received == bodies
        assert two.counters.received_frames == 4, "small neighbours share a frame, large ones have their own"

    run(scenario)


def test_idle_links_stay_up_by_pings_alone() -> None:
    async def scenario() -> None:
        one, events_one, two, events_two = await pair(check_ms=5)
        await wait_pinged(one, two)
        assert events_one.changes == [("up", 2)]
        assert events_two.changes == [("up", 1)]
        assert events_one.messages == events_two.messages == []

    run(scenario)


def test_a_node_that_restarts_is_found_again() -> None:
    async def scenario() -> None:
        one, events_one, two, _ = await pair()
        address = two.address
        two.close()
        await events_one.wait_change("down", 2)
        # It is down as soon as one direction is lost; what is sent is lost when the other one is.
        while one._links[2].is_open:
            await asyncio.sleep(0.001)
        one.send(2, [heartbeat(1, 2)])
        assert one.health()[0].undelivered_messages == 1
        events_one.changes.clear()

        again, events_again = network(2, {1: one.address}, listen=address, seed=1), Recorder()
        await again.start(events_again)
        await events_one.wait_change("up", 2)
        await events_again.wait_change("up", 1)
        one.send(2, [heartbeat(1, 2, 9)])
        await events_again.wait_until(lambda: len(events_again.messages) == 1)

    run(scenario)


def test_a_peer_that_dials_in_is_dialled_back_at_once() -> None:
    async def scenario() -> None:
        one, events_one = network(1, {2: NOWHERE}), Recorder()
        await one.start(events_one)
        # The address is hopeless. From here on no timer dials it again, so only the peer itself can bring that about.
        link = one._links[2]
        while link._timer is None:
            await asyncio.sleep(0.001)
        link._timer.cancel()
        two, events_two = network(2, {1: one.address}), Recorder()
        await two.start(events_two)
        link.address = two.address
        await events_one.wait_change("up", 2)

    run(scenario)


def test_a_removed_peer_is_disconnected_and_refused() -> None:
    async def scenario() -> None:
        one, events_one, two, events_two = await pair()
        one.remove_peer(2)
        await events_one.wait_change("down", 2)
        await events_two.wait_change("down", 1)
        while "not a member" not in two.health()[0].last_failure:
            await asyncio.sleep(0.005)
        assert one.counters.refused > 0

    run(scenario)


def test_a_peer_on_another_disk_is_accepted_only_when_that_disk_is_known() -> None:
    async def scenario() -> None:
        one, events_one = network(1, {}), Recorder()
        await one.start(events_one)
        one.add_peer(2, NOWHERE, KnownPeer(77))
        two, events_two = network(2, {1: one.address}, data=78), Recorder()
        await two.start(events_two)
        while "another data directory" not in two.health()[0].last_failure:
            await asyncio.sleep(0.005)
        # That nothing more is known of it does not mean that everything is welcome.
        one.add_peer(2, two.address)
        assert one._server.members[2] == KnownPeer(77)
        one.add_peer(2, two.address, KnownPeer(78))
        await events_one.wait_change("up", 2)
        await events_two.wait_change("up", 1)
        # And out it goes when its disk is not the right one any more.
        one.add_peer(2, two.address, KnownPeer(79))
        await events_one.wait_change("down", 2)

    run(scenario)


def test_messages_to_an_unknown_node_are_lost_quietly() -> None:
    async def scenario() -> None:
        one = network(1, {})
        await one.start(Recorder())
        one.send(9, [heartbeat(1, 9)])

    run(scenario)


def test_nodes_tell_each_other_their_clocks_before_anything_else_and_again() -> None:
    async def scenario() -> None:
        one, two = network(1, {}), network(2, {})
        events_one, events_two = Recorder(), Recorder()
        heard: list[tuple[int, int]] = []
        readings = iter(range(1_000, 10**9))
        one.exchange_clocks(lambda: next(readings), lambda peer, wall_ms: None)
        two.exchange_clocks(lambda: -5, lambda peer, wall_ms: heard.append((peer, wall_ms)))
        await one.start(events_one)
        await two.start(events_two)
        one.add_peer(2, two.address)
        two.add_peer(1, one.address)
        await events_one.wait_change("up", 2)
        one.send(2, [heartbeat(1, 2)])
        await events_two.wait_until(lambda: len(events_two.messages) == 1)
        assert heard[0] == (1, 1_000)
        while len(heard) < 3:
            await asyncio.sleep(0.001)
        assert heard[:3] == [(1, 1_000), (1, 1_001), (1, 1_002)]
        assert events_one.changes == [("up", 2)]

    run(scenario)


def test_the_election_timeout_of_a_peer_is_known_as_long_as_it_is_a_member() -> None:
    async def scenario() -> None:
        one, two = network(1, {}), network(2, {})
        one.own.election_ms, two.own.election_ms = 1_000, 10_000
        events_one, events_two = Recorder(), Recorder()
        await one.start(events_one)
        await two.start(events_two)
        one.add_peer(2, two.address)
        two.add_peer(1, one.address)
        await events_one.wait_change("up", 2)
        assert one.election_timeouts == {2: 10_000}
        assert two.election_timeouts == {1: 1_000}
        address = two.address
        two.close()
        await events_one.wait_change("down", 2)
        assert one.election_timeouts == {2: 10_000}, "it may lead, cut off"
        again, events_again = network(2, {1: one.address}, listen=address, seed=1), Recorder()
        events_one.changes.clear()
        await again.start(events_again)
        await events_one.wait_change("up", 2)
        assert one.election_timeouts == {}, "that program does not say"
        one.remove_peer(2)
        assert one.election_timeouts == {}

    run(scenario)
