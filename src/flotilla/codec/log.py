"""Values in a group's log and beside it that outlive the version which wrote them (proto/log.proto).

Owns the bytes of a Configuration, as stored with snapshots and sent with their pieces. Storage has
its own fixed layout for entries and hard state and needs nothing of this module for them.
Decoding is total: damaged bytes raise InvalidArgumentError and nothing else.
"""

from collections.abc import Iterable

from google.protobuf.message import DecodeError

from flotilla.codec.generated import log_pb2
from flotilla.raft.messages import Configuration
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import NO_NODE, NodeId


def encode_configuration(configuration: Configuration) -> bytes:
    """The same configuration always gives the same bytes."""
    return log_pb2.Configuration(
        voters=configuration.voters,
        outgoing=configuration.outgoing,
        learners=configuration.learners,
        learners_next=configuration.learners_next,
        auto_leave=configuration.auto_leave,
    ).SerializeToString(deterministic=True)


def decode_configuration(data: bytes | memoryview) -> Configuration:
    """Raises InvalidArgumentError for anything that is no configuration. Its sense is for raft to judge."""
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
        raise InvalidArgumentError("a configuration names node 0, which is no node")
    if len(nodes) != len(set(nodes)):
        raise InvalidArgumentError("a configuration names a node twice in one role")
    return nodes
