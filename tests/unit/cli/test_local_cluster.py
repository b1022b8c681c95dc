"""Ports and folders of local clusters, without starting one."""

import json
import math
import os
import time
from dataclasses import astuple

import pytest

from flotilla.cli.local_cluster import (
    LAYOUT_FILE,
    RESERVATIONS,
    RESERVED_S,
    LocalCluster,
    PortReservations,
    Ports,
    find_free_ports,
)
from flotilla.types.errors import InvalidArgumentError, NotFoundError


def test_free_ports_are_all_different_and_not_those_of_outgoing_connections(tmp_path):
    cluster = LocalCluster.on_free_ports(tmp_path, node_count=5)
    ports = [port for node in cluster.nodes.values() for port in astuple(node.ports)]
    assert len(set(ports)) == 20
    assert max(ports) < 32_768


def test_a_port_that_was_found_is_kept_for_its_node_for_a_while():
    (ports,) = find_free_ports(1)
    other = PortReservations()
    assert not any(map(other.take, astuple(ports))), "another process does not find it"
    RESERVATIONS.release(time.monotonic() + RESERVED_S)
    assert all(map(other.take, astuple(ports)))
    other.release(math.inf)


def test_numbered_ports_end_as_the_defaults_do(tmp_path):
    cluster = LocalCluster.on_ports_from(7600, tmp_path, node_count=2)
    assert [node.ports for node in cluster.nodes.values()] == [
        Ports(client=7600, peer=7601, http=7680, grpc=7650),
        Ports(client=7700, peer=7701, http=7780, grpc=7750),
    ]
    assert cluster.servers == ["127.0.0.1:7600", "127.0.0.1:7700"]


def layout(tmp_path, pid):
    node = {"node": 1, "pid": pid, "ports": {"client": 1, "peer": 2, "http": 3, "grpc": 4}}
    (tmp_path / LAYOUT_FILE).write_text(json.dumps({"nodes": [node]}))


def test_a_layout_is_read_back(tmp_path):
    layout(tmp_path, 0)
    cluster = LocalCluster.from_layout(tmp_path)
    assert cluster.nodes[1].ports == Ports(1, 2, 3, 4)
    assert cluster.running == []


def test_a_process_that_got_an_old_id_is_not_taken_for_a_node(tmp_path):
    layout(tmp_path, os.getpid())
    cluster = LocalCluster.from_layout(tmp_path)
    (tmp_path / "node1").mkdir()
    (tmp_path / "node1" / "lock").touch()
    assert not cluster.nodes[1].is_running
    # This very process must survive it.
    cluster.kill()


def test_a_folder_without_a_cluster(tmp_path):
    with pytest.raises(NotFoundError, match="no cluster was started"):
        LocalCluster.from_layout(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", '{"nodes": [{"node": 1}]}', "[]"])
def test_a_damaged_layout(tmp_path, text):
    (tmp_path / LAYOUT_FILE).write_text(text)
    with pytest.raises(InvalidArgumentError, match="is damaged"):
        LocalCluster.from_layout(tmp_path)


def test_the_last_words_of_a_node(tmp_path):
    node = LocalCluster.on_free_ports(tmp_path, node_count=1).nodes[1]
    assert node.last_words() == "its log is empty"
    node.log.write_text("first\nthe port is taken\n\n")
    assert node.last_words() == "the port is taken"
