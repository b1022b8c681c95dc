"""The handshake of a link: the first frame each way, which identifies the nodes and accepts or refuses them.

The dialling node sends PeerHello, the other replies with PeerWelcome; only then do messages flow. Both have
a fixed layout that never changes, so that any two versions can at least refuse each other by name;
bytes after the known fields are ignored, as room for more. Values and decisions only: nothing here knows of sockets.

Who a node is has four parts. Its *cluster* has a name and, once founded, an id: two clusters of one name refuse each
other. Its *data directory* has a number: a node that came back with its id on another disk has lost its votes. The
directory's *starts* are counted: a node whose directory was seen in a later start runs on a restored backup or a copy,
and has lost what it voted and stored since. Its *process* has a number drawn at every start: it distinguishes a node
that redials from a second process with the same id.

Where the nodes share a join secret and a link is not encrypted, both sides prove that they know it before anything
else is said: the hello has a nonce, the first welcome is a challenge with another nonce and the proof of the answering
node, and the dialling node sends its own proof, to which the second welcome is the decision.

The hello ends with the election timeout of its node: a new leader waits for leases of a node with a longer one.

The welcome also says whether the answering node is part of a cluster. Nodes that found one ask for that first.

The versions in both frames are cluster versions (`types/version`), of which a link speaks the highest that
both nodes support. A node that does not support the version of the cluster is refused, and learns that version.
"""

import struct
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace

from flotilla.codec.frames import Buffer
from flotilla.security.join_secret import NONCE_BYTES, PROOF_BYTES, JoinSecret
from flotilla.types.ids import NodeId
from flotilla.types.version import CLUSTER_VERSION_MAX, CLUSTER_VERSION_MIN, SUPPORTED, VersionRange

#: The bound of frames from a peer before its handshake is accepted.
HANDSHAKE_BYTES_MAX = 256

CLUSTER_ID_BYTES = 16
#: The id of a cluster that a node does not know yet.
NO_CLUSTER_ID = bytes(CLUSTER_ID_BYTES)

_MAGIC = b"FLTP"
# magic, lowest and highest cluster version, digest of the cluster's name, sender, addressee, process.
_HELLO = struct.Struct(">4sHH16sQQQ")
#: After it: the number of the data directory, the cluster's id, the starts of the directory.
_HELLO_MORE = struct.Struct(">Q16sQ")
#: After it and the nonce, if there is one: the election timeout. Earlier programs do not send it and ignore it.
_ELECTION_MS = struct.Struct(">I")
# magic, decision, version chosen (of REFUSED_VERSION: that of the cluster), sender.
_WELCOME = struct.Struct(">4sHHQ")
#: After it: the number of the data directory, the cluster's id, the standing.
_WELCOME_MORE = struct.Struct(">Q16sB")

#: Of a proof, so that nobody can send back that of the other side.
_ACCEPTS = b"accepts"
_DIALS = b"dials"

#: The standing of the answering node. Protocol: the numbers never change. It is part of no cluster;
NO_CLUSTER = 0
#: it is part of one;
IN_CLUSTER = 1
#: it is part of one that it founded with the asking node, on the very data directory that asks.
FOUNDED_WITH_YOU = 2

#: Decisions. Protocol: the numbers never change.
ACCEPTED = 0
REFUSED_VERSION = 1
REFUSED_CLUSTER = 2
REFUSED_ADDRESSEE = 3
REFUSED_STRANGER = 4
REFUSED_DUPLICATE = 5
REFUSED_DATA = 6
REFUSED_CLUSTER_ID = 7
REFUSED_REMOVED = 8
REFUSED_OLDER = 9
REFUSED_CERTIFICATE = 10
REFUSED_SECRET = 11
#: Not the last word: the answering node wants a proof of the join secret.
CHALLENGED = 12

DECISION_TEXT = {
    ACCEPTED: "accepted",
    REFUSED_VERSION: "the node does not support the version of this cluster",
    REFUSED_CLUSTER: "the node belongs to a cluster of another name",
    REFUSED_ADDRESSEE: "the address belongs to another node",
    REFUSED_STRANGER: "the node is not a member",
    REFUSED_DUPLICATE: "another process is connected under this node id",
    REFUSED_DATA: "the cluster knows this node with another data directory; start it with --join",
    REFUSED_CLUSTER_ID: "the node belongs to another cluster of the same name",
    REFUSED_REMOVED: "the cluster has removed this node",
    REFUSED_OLDER: "the cluster has seen a later start of this node: its data directory is a restored backup or a "
    "copy; run `flotilla node repair` on it and start it with --join",
    REFUSED_CERTIFICATE: "the certificate is that of another node",
    REFUSED_SECRET: "the node does not prove that it knows the join secret (join_secret)",
    CHALLENGED: "the node asks for a join secret (join_secret), and this one has none",
}


class HandshakeError(Exception):
    """The first frame is not a handshake: the other side is not a peer."""


@dataclass(frozen=True, slots=True)
class PeerHello:
    #: The digest of the cluster's name.
    cluster: bytes
    sender: NodeId
    to: NodeId
    #: Drawn at every start of a process.
    process: int
    version_min: int = CLUSTER_VERSION_MIN
    version_max: int = CLUSTER_VERSION_MAX
    #: The number of the data directory; 0: it has none.
    data: int = 0
    cluster_id: bytes = NO_CLUSTER_ID
    #: How often the data directory has been started; 0: not counted.
    starts: int = 0
    #: For the proof of the answering node; empty: this node has no join secret.
    nonce: bytes = b""
    #: The election timeout of the sender; 0: it does not say.
    election_ms: int = 0

    @property
    def versions(self) -> VersionRange:
        return VersionRange(self.version_min, self.version_max)


@dataclass(frozen=True, slots=True)
class PeerWelcome:
    decision: int
    sender: NodeId
    #: Which the link speaks; of REFUSED_VERSION that of the cluster. 0: none.
    version: int = 0
    data: int = 0
    cluster_id: bytes = NO_CLUSTER_ID
    standing: int = NO_CLUSTER
    #: Of a challenge: for the proof of the dialling node, and that of the answering one.
    nonce: bytes = b""
    proof: bytes = b""


@dataclass(frozen=True, slots=True)
class KnownPeer:
    """What this node knows of a member. 0: not known."""

    data: int = 0
    #: The newest start that the cluster has recorded, and its process.
    starts: int = 0
    process: int = 0


@dataclass(slots=True)
class Introduction:
    """What a node says of itself in every handshake. It changes when the node enters a cluster."""

    #: The digest of the cluster's name.
    cluster: bytes
    node: NodeId
    process: int
    data: int = 0
    starts: int = 0
    cluster_id: bytes = NO_CLUSTER_ID
    #: The election timeout; 0: nobody needs to know.
    election_ms: int = 0
    #: As far as this node knows; 0: not at all.
    cluster_version: int = 0
    is_in_cluster: bool = False
    #: The nodes with which this one founded its cluster, with the number of each data directory.
    founders: Mapping[NodeId, int] = field(default_factory=dict)
    #: Which nodes on links without TLS must know; None: nobody asks for it.
    secret: JoinSecret | None = None

    def needs_proof(self, *, is_encrypted: bool, has_none: bool) -> bool:
        """Whether the other side of a link must prove the secret. `has_none`: it says that it has no secret."""
        secret = self.secret
        return secret is not None and not is_encrypted and not (has_none and secret.is_optional)

    def hello(self, to: NodeId) -> PeerHello:
        nonce = b"" if self.secret is None else self.secret.nonce()
        own = (self.cluster, self.node, to, self.process)
        return PeerHello(
            *own,
            data=self.data,
            cluster_id=self.cluster_id,
            starts=self.starts,
            nonce=nonce,
            election_ms=self.election_ms,
        )

    def challenge(self, hello: bytes) -> PeerWelcome:
        """The answer to the bytes of a hello."""
        assert self.secret is not None
        asked = PeerWelcome(CHALLENGED, self.node, nonce=self.secret.nonce(), proof=bytes(PROOF_BYTES))
        return replace(asked, proof=self.secret.proof(_ACCEPTS, hello, encode_welcome(asked)))

    def answer(self, hello: bytes, challenge: PeerWelcome) -> bytes | None:
        """The proof for a challenge. None: the other side does not know the secret."""
        assert self.secret is not None
        asked = encode_welcome(replace(challenge, proof=bytes(PROOF_BYTES)))
        is_known = self.secret.is_proof(challenge.proof, _ACCEPTS, hello, asked)
        return self.secret.proof(_DIALS, hello, encode_welcome(challenge)) if is_known else None

    def is_answer(self, proof: bytes, hello: bytes, challenge: PeerWelcome) -> bool:
        assert self.secret is not None
        return self.secret.is_proof(proof, _DIALS, hello, encode_welcome(challenge))

    def welcome(self, hello: PeerHello, decision: int) -> PeerWelcome:
        version = min(CLUSTER_VERSION_MAX, hello.version_max) if decision == ACCEPTED else 0
        if decision == REFUSED_VERSION:
            version = self.cluster_version
        standing = IN_CLUSTER if self.is_in_cluster else NO_CLUSTER
        if self.is_in_cluster and hello.data and self.founders.get(hello.sender) == hello.data:
            standing = FOUNDED_WITH_YOU
        return PeerWelcome(decision, self.node, version, self.data, self.cluster_id, standing)


def encode_hello(hello: PeerHello) -> bytes:
    assert len(hello.cluster) == len(hello.cluster_id) == CLUSTER_ID_BYTES
    head = _HELLO.pack(
        _MAGIC, hello.version_min, hello.version_max, hello.cluster, hello.sender, hello.to, hello.process
    )
    return (
        head
        + _HELLO_MORE.pack(hello.data, hello.cluster_id, hello.starts)
        + hello.nonce
        + _ELECTION_MS.pack(hello.election_ms)
    )


def decode_hello(frame: Buffer) -> PeerHello:
    if len(frame) < _HELLO.size + _HELLO_MORE.size or frame[:4] != _MAGIC:
        raise HandshakeError("not a hello")
    _, version_min, version_max, cluster, sender, to, process = _HELLO.unpack_from(frame)
    data, cluster_id, starts = _HELLO_MORE.unpack_from(frame, _HELLO.size)
    known = _HELLO.size + _HELLO_MORE.size
    nonce = _rest(frame, known, NONCE_BYTES)
    told = _rest(frame, known + len(nonce), _ELECTION_MS.size)
    own = (cluster, sender, to, process, version_min, version_max, data, cluster_id, starts, nonce)
    return PeerHello(*own, election_ms=int.from_bytes(told, "big"))


def encode_welcome(welcome: PeerWelcome) -> bytes:
    head = _WELCOME.pack(_MAGIC, welcome.decision, welcome.version, welcome.sender)
    more = _WELCOME_MORE.pack(welcome.data, welcome.cluster_id, welcome.standing)
    return head + more + welcome.nonce + welcome.proof


def decode_welcome(frame: Buffer) -> PeerWelcome:
    if len(frame) < _WELCOME.size + _WELCOME_MORE.size or frame[:4] != _MAGIC:
        raise HandshakeError("not a welcome")
    _, decision, version, sender = _WELCOME.unpack_from(frame)
    data, cluster_id, standing = _WELCOME_MORE.unpack_from(frame, _WELCOME.size)
    known = _WELCOME.size + _WELCOME_MORE.size
    nonce, proof = _rest(frame, known, NONCE_BYTES), _rest(frame, known + NONCE_BYTES, PROOF_BYTES)
    return PeerWelcome(decision, sender, version, data, cluster_id, standing, nonce, proof)


def _rest(frame: Buffer, start: int, count: int) -> bytes:
    """Bytes that earlier versions did not send; empty if they are not there."""
    found = bytes(frame[start : start + count])
    return found if len(found) == count else b""


def judge(
    hello: PeerHello, own: Introduction, members: Mapping[NodeId, KnownPeer], removed: Container[NodeId] = ()
) -> int:
    """The decision on a hello, from the most general reason to the most specific.

    `removed` are nodes that were members once and never will be again.
    """
    if hello.version_max < max(SUPPORTED.lowest, own.cluster_version) or hello.version_min > SUPPORTED.highest:
        return REFUSED_VERSION
    if hello.cluster != own.cluster:
        return REFUSED_CLUSTER
    if hello.to != own.node:
        return REFUSED_ADDRESSEE
    if NO_CLUSTER_ID not in (hello.cluster_id, own.cluster_id) and hello.cluster_id != own.cluster_id:
        return REFUSED_CLUSTER_ID
    if hello.sender in removed:
        return REFUSED_REMOVED
    if hello.sender == own.node or hello.sender not in members:
        return REFUSED_STRANGER
    return judge_data(members[hello.sender], hello)


def judge_data(known: KnownPeer, hello: PeerHello) -> int:
    """Whether the data directory of a member is the one that the cluster knows, as it left it."""
    if known.data and known.data != hello.data:
        return REFUSED_DATA
    if known.data == hello.data and _is_older(known, hello):
        return REFUSED_OLDER
    return ACCEPTED


def _is_older(known: KnownPeer, hello: PeerHello) -> bool:
    if not hello.starts:
        return False
    return hello.starts < known.starts or (hello.starts == known.starts > 0 and hello.process != known.process)
