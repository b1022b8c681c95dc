"""Members of the cluster: registering, joining, leaving, and refusals."""

import pytest

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.metadata.commands import RegisterBroker, encode_command
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import ClusterReply, CreateTopic, Fetch, InitCluster, JoinCluster, RemoveNode
from tests.unit.broker.fleet import CLUSTER, Fleet, Node, client_address, peer_address, single_node, three


def join(node: int, peer: str = "", client: str = "") -> JoinCluster:
    return JoinCluster(node, peer or peer_address(node), client or client_address(node))


def logged(node: Node) -> int:
    replica = node.replica(METADATA_GROUP)
    assert replica is not None
    return replica.raft.log.last_index


def voters(node: Node) -> tuple[int, ...]:
    replica = node.replica(METADATA_GROUP)
    assert replica is not None
    return replica.raft.configuration.voters


def grow(fleet: Fleet, node: int) -> Node:
    """Lets a node in and waits until it votes."""
    newcomer = fleet.add(node)
    reply = fleet.controller().call(join(node)).result
    assert isinstance(reply, ClusterReply)
    for other, peer in reply.peers.items():
        if other != node:
            newcomer.connect(other, peer)
    newcomer.learn()
    fleet.wait(lambda: node in voters(fleet.controller()) and newcomer.catalog.cluster_name == CLUSTER)
    fleet.advance(1000)
    return newcomer


# Registering.


def test_nodes_register_themselves_and_know_each_other() -> None:
    fleet = three()
    for box in fleet.nodes.values():
        assert {node: broker.client_address for node, broker in box.catalog.brokers().items()} == {
            node: client_address(node) for node in fleet.nodes
        }
        assert sorted(box.links) == [node for node in fleet.nodes if node != box.node]
        assert box.machine.state.cluster.founders == (1, 2, 3)


def test_the_registration_of_an_earlier_start_is_not_that_of_this_one() -> None:
    fleet = three()
    node = fleet.nodes[2]
    assert node.membership.is_registered()
    own = (client_address(2), peer_address(2))
    node.membership.start(RegisterBroker(CLUSTER, 2, *own, "", "", "1", 7, 9, node.now_ms()), node.incarnation)
    assert 2 in node.catalog.brokers()
    assert not node.membership.is_registered()
    fleet.advance(1000)
    assert node.membership.is_registered()


def test_a_known_node_is_not_registered_again() -> None:
    node = single_node()
    before = logged(node)
    node.fleet.advance(5000)
    assert logged(node) == before


def test_a_node_that_would_be_refused_does_not_fill_the_log() -> None:
    fleet = three()
    node = fleet.nodes[3]
    own = node.membership._own
    assert own is not None
    node.membership._own = RegisterBroker("other", 3, own.client_address, own.peer_address, "", "", "2", 0, 0, 1)
    fleet.advance(1000)
    before = logged(node)
    fleet.advance(5000)
    assert logged(node) == before


def test_a_bad_committed_address_stops_no_node() -> None:
    node = single_node()
    row = RegisterBroker(CLUSTER, 9, "nonsense", "nonsense", "", "", "1", 0, 0, 1)
    node.propose(METADATA_GROUP, encode_command(row), lambda _: None)
    node.fleet.settle()
    assert node.links == {}
    node.call(CreateTopic("t", replication_factor=1))
    assert len(node.membership.hosts) == 1


# Joining.


def test_a_node_joins_votes_and_hosts() -> None:
    fleet = Fleet(1).form()
    newcomer = grow(fleet, 2)
    assert voters(newcomer) == (1, 2)
    assert newcomer.catalog.brokers()[2].version == "1", "its own row took the place of the admission's"
    fleet.controller().call(CreateTopic("t", 4))
    fleet.advance(1000)
    assert len(newcomer.membership.hosts) == 4


def test_a_join_can_be_repeated_until_the_node_votes() -> None:
    fleet = Fleet(1).form()
    replies = [fleet.nodes[1].call(join(2)).result for _ in range(3)]
    peers = {1: peer_address(1), 2: peer_address(2)}
    assert replies == [ClusterReply(fleet.nodes[1].catalog.cluster_id, peers, CLUSTER)] * 3
    before = logged(fleet.nodes[1])
    fleet.nodes[1].call(join(2))
    assert logged(fleet.nodes[1]) == before


def test_an_unused_id_may_come_from_another_address() -> None:
    """Registered, but its membership never began: a node that died before it had anything."""
    node = single_node()
    node.change_members = lambda *_: None  # type: ignore[method-assign]
    node.call(join(2))
    del node.change_members
    assert node.call(join(2, peer="elsewhere:7601")).code == "ClusterReply"
    assert node.catalog.brokers()[2].peer_address == "elsewhere:7601"


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (join(2, peer="elsewhere:7601"), "ALREADY_EXISTS"),
        (join(1), "CONFIGURATION_CHANGE"),
        (join(1, peer="elsewhere:7601"), "CONFIGURATION_CHANGE"),
        (join(0, peer="a:1"), "INVALID_ARGUMENT"),
        (join(2**32, peer="a:1"), "INVALID_ARGUMENT"),
        (join(3, peer="nonsense"), "INVALID_ARGUMENT"),
        (join(3, peer="host:0"), "INVALID_ARGUMENT"),
        (join(3, client="host:99999"), "INVALID_ARGUMENT"),
        (join(3, peer="h" * 300 + ":1"), "INVALID_ARGUMENT"),
        (JoinCluster(3, "", ""), "INVALID_ARGUMENT"),
        (JoinCluster(3, "a:1", "a:2", "nonsense"), "INVALID_ARGUMENT"),
    ],
)
def test_joins_that_are_refused_change_nothing(request_: JoinCluster, code: str) -> None:
    node = single_node()
    node.call(join(2))
    before = (logged(node), dict(node.links))
    assert node.call(request_).code == code
    assert (logged(node), node.links) == before


def test_a_removed_id_never_comes_back() -> None:
    fleet = Fleet(1).form()
    grow(fleet, 2)
    assert fleet.controller().call(RemoveNode(2)).code in ("ClusterReply", "NOT_LEADER")
    fleet.wait(lambda: fleet.controller().call(RemoveNode(2)).code == "ClusterReply")
    assert fleet.nodes[1].call(join(2)).code == "CONFIGURATION_CHANGE"


def test_a_follower_redirects_a_joining_node_to_the_leader() -> None:
    fleet = three()
    controller = fleet.controller()
    follower = next(box for box in fleet.nodes.values() if box is not controller)
    for request in (join(4), RemoveNode(3)):
        assert getattr(follower.call(request).result, "address", None) == client_address(controller.node)


def test_a_change_in_flight_makes_the_next_one_retryable() -> None:
    fleet = Fleet(1).form()
    answers = [fleet.nodes[1].ask(join(2)), fleet.nodes[1].ask(join(3))]
    fleet.settle()
    assert answers[0].code == "ClusterReply"
    assert answers[1].code in ("ClusterReply", "CONFIGURATION_CHANGE")
    assert fleet.nodes[1].call(join(3)).code == "ClusterReply"


def test_only_as_many_as_needed_vote() -> None:
    fleet = Fleet(5).form()
    newcomer = fleet.add(6)
    reply = fleet.controller().call(join(6)).result
    assert isinstance(reply, ClusterReply)
    newcomer.links.update({node: peer for node, peer in reply.peers.items() if node != 6})
    newcomer.learn()
    fleet.advance(5000)
    assert newcomer.catalog.cluster_name == CLUSTER
    assert voters(newcomer) == (1, 2, 3, 4, 5)


# Leaving.


def test_a_broker_leaves_and_its_links_are_closed() -> None:
    fleet = Fleet(4).form()
    fleet.create("t")
    controller = fleet.controller()
    empty = next(node for node in fleet.nodes if not controller.machine.state.load(node).replicas)
    if empty == controller.node:
        controller.transfer(METADATA_GROUP, next(node for node in fleet.nodes if node != empty))
        fleet.advance(1000)
        controller = fleet.controller()
    reply = controller.call(RemoveNode(empty)).result
    assert isinstance(reply, ClusterReply)
    assert empty not in reply.peers
    assert controller.call(RemoveNode(empty)).code == "ClusterReply", "repeating is fine"
    fleet.advance(1000)
    assert empty not in voters(controller)
    assert all(empty not in box.links for box in fleet.nodes.values() if box.node != empty)
    before = logged(controller)
    fleet.advance(5000)
    assert logged(controller) == before


@pytest.mark.parametrize(("node", "code"), [(3, "CONFIGURATION_CHANGE"), (9, "NOT_FOUND"), (0, "NOT_FOUND")])
def test_removals_that_are_refused(node: int, code: str) -> None:
    fleet = three()
    fleet.create("t")
    controller = fleet.controller()
    before = logged(controller)
    assert controller.call(RemoveNode(node)).code == code
    assert logged(controller) == before


def test_the_last_voter_stays() -> None:
    node = single_node()
    assert node.call(RemoveNode(1)).code == "CONFIGURATION_CHANGE"
    assert 1 in node.catalog.brokers()
    node.fleet.create("t")


def test_a_leader_that_is_to_leave_hands_over_first() -> None:
    fleet = three()
    controller = fleet.controller()
    refused = controller.call(RemoveNode(controller.node)).result
    assert isinstance(refused, FlotillaError)
    assert refused.code == "NOT_LEADER"
    fleet.advance(1000)
    heir = fleet.controller()
    assert getattr(refused, "address", None) == client_address(heir.node)
    assert heir.call(RemoveNode(controller.node)).code == "ClusterReply"
    fleet.advance(2000)
    assert controller.node not in voters(heir)
    assert fleet.controller() is heir
    fleet.check_answers()


def test_a_leader_without_an_heir_stays() -> None:
    fleet = three()
    controller = fleet.controller()
    for node in fleet.nodes:
        if node != controller.node:
            fleet.kill(node)
    assert controller.ask(RemoveNode(controller.node)).code == "UNAVAILABLE"


# Founding.


def waiting() -> Node:
    """A node that was started to wait for `cluster init`."""
    fleet = Fleet(0)
    return fleet.add(1)


def test_waiting_nodes_become_a_cluster_and_repeating_is_fine() -> None:
    fleet = Fleet(0)
    nodes = {node: peer_address(node) for node in (1, 2, 3)}
    for node in nodes:
        fleet.add(node)
    assert fleet.nodes[1].call(InitCluster({})).result == ClusterReply("", {1: "127.0.0.1:7601"})
    for box in fleet.nodes.values():
        assert box.call(InitCluster(nodes)).code == "ClusterReply"
    fleet.form()
    for box in fleet.nodes.values():
        assert box.call(InitCluster(nodes)).code == "ClusterReply"
        assert box.call(InitCluster({1: peer_address(1)})).code in ("ALREADY_EXISTS", "INVALID_ARGUMENT")
    grow(fleet, 4)
    assert fleet.nodes[1].call(InitCluster(nodes)).code == "ClusterReply", "also after the cluster has grown"


@pytest.mark.parametrize(
    "nodes",
    [
        {2: "a:1"},
        {1: "a:1", 0: "b:1"},
        {1: "a:1", 2**32: "b:1"},
        {1: "a:1", 2: "nonsense"},
        {1: ""},
        dict.fromkeys(range(1, 1002), "a:1"),
    ],
)
def test_a_cluster_is_not_founded_on_nonsense(nodes: dict[int, str]) -> None:
    node = waiting()
    assert node.call(InitCluster(nodes)).code == "INVALID_ARGUMENT"
    assert node.replica(METADATA_GROUP) is None
    assert node.links == {}


def test_a_node_without_a_cluster_is_unavailable() -> None:
    node = waiting()
    for request in (join(2), RemoveNode(2), CreateTopic("t"), Fetch("t", 0, 0, 1)):
        assert node.call(request).code == "UNAVAILABLE"
    node.fleet.advance(2000)
