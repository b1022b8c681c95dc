"""The handshake of a link: the first frame each way, which identifies the nodes and accepts or refuses them.

The dialling node sends PeerHello, the other replies with PeerWelcome; only then do messages flow. Both have
a fixed layout that never changes, so that any two versions can at least refuse each other by name;
bytes after the known fields are ignored, as room for more. The incarnation is drawn anew at every start of
a process: it distinguishes a node that redials from a second process with the same id. The data directory's
number distinguishes a node from one that came back with its id on another disk and has lost its votes.
Values and decisions only: nothing here knows of sockets.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from flotilla.codec.frames import Buffer
from flotilla.types.ids import NodeId

PROTOCOL_VERSION_MIN = 1
PROTOCOL_VERSION_MAX = 1

#: The bound of frames from a peer before its handshake is accepted.
HANDSHAKE_BYTES_MAX = 256

CLUSTER_ID_BYTES = 16

_MAGIC = b"FLTP"
# magic, lowest and highest protocol version, cluster, sender, addressee, incarnation.
_HELLO = struct.Struct(">4sHH16sQQQ")
#: After it: the number of the data directory, which older versions do not send.
_DATA = struct.Struct(">Q")
# magic, decision, version chosen, sender.
_WELCOME = struct.Struct(">4sHHQ")

#: Decisions. Protocol: the numbers never change.
ACCEPTED = 0
REFUSED_VERSION = 1
REFUSED_CLUSTER = 2
REFUSED_ADDRESSEE = 3
REFUSED_STRANGER = 4
REFUSED_DUPLICATE = 5
REFUSED_DATA = 6

DECISION_TEXT = {
    ACCEPTED: "accepted",
    REFUSED_VERSION: "no protocol version in common",
    REFUSED_CLUSTER: "the node belongs to another cluster",
    REFUSED_ADDRESSEE: "the address belongs to another node",
    REFUSED_STRANGER: "the node is not a member",
    REFUSED_DUPLICATE: "another process is connected under this node id",
    REFUSED_DATA: "the cluster knows this node with another data directory; start it with --join",
}


class HandshakeError(Exception):
    """The first frame is not a handshake: the other side is not a peer."""


@dataclass(frozen=True, slots=True)
class PeerHello:
    cluster: bytes
    sender: NodeId
    to: NodeId
    incarnation: int
    version_min: int = PROTOCOL_VERSION_MIN
    version_max: int = PROTOCOL_VERSION_MAX
    #: The number of the data directory; 0: it has none.
    data: int = 0


@dataclass(frozen=True, slots=True)
class PeerWelcome:
    decision: int
    sender: NodeId
    version: int = 0


def encode_hello(hello: PeerHello) -> bytes:
    assert len(hello.cluster) == CLUSTER_ID_BYTES
    head = _HELLO.pack(
        _MAGIC, hello.version_min, hello.version_max, hello.cluster, hello.sender, hello.to, hello.incarnation
    )
    return head + _DATA.pack(hello.data)


def decode_hello(frame: Buffer) -> PeerHello:
    if len(frame) < _HELLO.size or frame[:4] != _MAGIC:
        raise HandshakeError("not a hello")
    _, version_min, version_max, cluster, sender, to, incarnation = _HELLO.unpack_from(frame)
    data: int = _DATA.unpack_from(frame, _HELLO.size)[0] if len(frame) >= _HELLO.size + _DATA.size else 0
    return PeerHello(cluster, sender, to, incarnation, version_min, version_max, data)


def encode_welcome(welcome: PeerWelcome) -> bytes:
    return _WELCOME.pack(_MAGIC, welcome.decision, welcome.version, welcome.sender)


def decode_welcome(frame: Buffer) -> PeerWelcome:
    if len(frame) < _WELCOME.size or frame[:4] != _MAGIC:
        raise HandshakeError("not a welcome")
    _, decision, version, sender = _WELCOME.unpack_from(frame)
    return PeerWelcome(decision, sender, version)


def judge(hello: PeerHello, *, cluster: bytes, node: NodeId, members: Mapping[NodeId, int]) -> int:
    """The decision on a hello, from the most general reason to the most specific.

    `members` maps each member to the number of its data directory; 0: not known.
    """
    if hello.version_max < PROTOCOL_VERSION_MIN or hello.version_min > PROTOCOL_VERSION_MAX:
        return REFUSED_VERSION
    if hello.cluster != cluster:
        return REFUSED_CLUSTER
    if hello.to != node:
        return REFUSED_ADDRESSEE
    if hello.sender == node or hello.sender not in members:
        return REFUSED_STRANGER
    if is_other_data(members[hello.sender], hello.data):
        return REFUSED_DATA
    return ACCEPTED


def is_other_data(known: int, sent: int) -> bool:
    return bool(known and sent and known != sent)
