"""Records sent one by one while their leader is killed: each is stored once, in order."""

import time
from pathlib import Path

import pytest

from flotilla import Client
from flotilla.cli.local_cluster import LocalCluster
from flotilla.types.ids import NO_NODE, NodeId

pytestmark = pytest.mark.slow

KILLS = 3
#: More than make the client open a connection for them.
AT_A_TIME = 40
WAIT_S_MAX = 60


def leader_of(client: Client) -> NodeId:
    """A broker may not know the leader yet."""
    deadline = time.monotonic() + WAIT_S_MAX
    while (leader := client.admin.metadata(["orders"]).topics[0].partitions[0].leader) == NO_NODE:
        assert time.monotonic() < deadline, "no leader is known"
        time.sleep(0.02)
    return leader


def test_records_one_by_one_survive_their_leaders(tmp_path: Path) -> None:
    sent: list[bytes] = []
    with LocalCluster.on_free_ports(tmp_path) as cluster:
        cluster.start()
        cluster.wait_ready()
        with Client(cluster.servers) as client:
            client.create_topic("orders", partitions=1)

            def produce() -> None:
                for _ in range(AT_A_TIME):
                    sent.append(b"%d" % len(sent))
                    assert client.produce("orders", sent[-1]).offset == len(sent) - 1

            produce()
            for _ in range(KILLS):
                leader = leader_of(client)
                cluster.nodes[leader].kill()
                produce()
                cluster.restart_node(leader)
                cluster.wait_ready()
            assert client.find_offset("orders", 0, "latest") == len(sent)
            with client.reader("orders", offset=0) as consumer:
                assert [next(consumer).payload for _ in sent] == sent
