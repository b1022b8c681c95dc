"""The bytes of a Configuration, as stored with snapshots and sent with their pieces (proto/log.proto).

They outlive the version that wrote them. Entries and hard state have a fixed layout in storage. Decoding is total:
damaged bytes raise only InvalidArgumentError.
"""

from collections.abc import Iterable

from google.protobuf.message import DecodeError

from flotilla.codec.generated import log_pb2
from flotilla.raft.messages import Configuration
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import NO_NODE, NUMBER_MAX, NodeId


def encode_configuration(configuration: Configuration) -> bytes:
    """Deterministic: equal configurations have equal bytes."""
    return log_pb2.Configuration(
        voters=configuration.voters,
        outgoing=configuration.outgoing,
        learners=configuration.learners,
        learners_next=configuration.learners_next,
        auto_leave=configuration.auto_leave,
    ).SerializeToString(deterministic=True)


def decode_configuration(data: bytes | memoryview) -> Configuration:
    """Raises InvalidArgumentError for other bytes. Raft checks whether the configuration makes sense."""
    try:
        stored = log_pb2.Configuration.FromString(bytes(data))
    except DecodeError as error:
        raise InvalidArgumentError("the bytes are no configuration") from error
    return Configuration(
        voters=_nodes(stored.voters),
        outgoing=_nodes(stored.outgoing),
        learners=_nodes(stored.learners),
        learners_next=_nodes(stored.learners_next),
        auto_leave=stored.auto_leave,
    )


def _nodes(ids: Iterable[NodeId]) -> tuple[NodeId, ...]:
    nodes = tuple(ids)
    if NO_NODE in nodes:
        raise InvalidArgumentError("a configuration names node 0, which does not exist")
    if max(nodes, default=NO_NODE) > NUMBER_MAX:
        raise InvalidArgumentError(f"a configuration names node {max(nodes)}, and no node id is over {NUMBER_MAX}")
    if len(nodes) != len(set(nodes)):
        raise InvalidArgumentError("a configuration names a node twice in one role")
    return nodes
