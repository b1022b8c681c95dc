"""Peers that are measured with the same workloads where they are installed, each with its own Python client.

Each runs with its default settings and with a sync before every acknowledgement, as far as it has both. Three nodes,
replicated to all three, except Redis, which has no replication that a majority confirms.
"""

from bench.peers.kafka import KafkaPeer
from bench.peers.nats import NatsPeer
from bench.peers.peer import Peer
from bench.peers.rabbitmq import RabbitPeer
from bench.peers.redis import RedisPeer

PEERS: tuple[Peer, ...] = (NatsPeer(), RabbitPeer(), RedisPeer(), KafkaPeer())
