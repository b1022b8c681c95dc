"""A configuration as the data of a CONFIG entry.

The entry carries the whole resulting configuration, not the difference: a replica that starts from
an empty log or from a snapshot in the middle of a change needs no history to know the members.
Layout: version u8, auto_leave u8, four counts u16, then the ids as u64, all little-endian.
"""

import struct
from itertools import islice

from flotilla.raft.messages import Configuration
from flotilla.types.errors import CorruptionError
from flotilla.types.ids import NO_NODE, NUMBER_MAX

_HEAD = struct.Struct("<BBHHHH")
_ID = struct.Struct("<Q")
_VERSION = 1


def encode_configuration(configuration: Configuration) -> bytes:
    groups = (
        configuration.voters,
        configuration.outgoing,
        configuration.learners,
        configuration.learners_next,
    )
    head = _HEAD.pack(_VERSION, configuration.auto_leave, *(len(group) for group in groups))
    ids = [node for group in groups for node in group]
    return head + struct.pack(f"<{len(ids)}Q", *ids)


def decode_configuration(data: bytes | memoryview) -> Configuration:
    """Raises CorruptionError for bytes that `encode_configuration` did not make."""
    if len(data) < _HEAD.size:
        raise CorruptionError(f"a configuration of {len(data)} bytes is too short")
    version, auto_leave, *counts = _HEAD.unpack_from(data)
    if version != _VERSION or auto_leave > 1:
        raise CorruptionError(f"there is no configuration of version {version} with auto_leave {auto_leave}")
    if len(data) != _HEAD.size + _ID.size * sum(counts):
        raise CorruptionError(f"a configuration of {sum(counts)} members has {len(data)} bytes")
    ids = iter([node for (node,) in _ID.iter_unpack(data[_HEAD.size :])])
    groups = [tuple(islice(ids, count)) for count in counts]
    for nodes in groups:
        if len(nodes) != len(set(nodes)) or not all(NO_NODE < node <= NUMBER_MAX for node in nodes):
            raise CorruptionError(f"a configuration names the members {nodes}")
    voters, outgoing, learners, learners_next = groups
    return Configuration(voters, outgoing, learners, learners_next, bool(auto_leave))
