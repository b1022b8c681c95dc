"""A configuration as the data of a CONFIG entry.

The entry carries the whole resulting configuration, not the difference: a replica that starts from
an empty log or from a snapshot in the middle of a change needs no history to know the members.
Layout: version u8, auto_leave u8, four counts u16, then the ids as u64, all little-endian.
"""

import struct

from flotilla.raft.messages import Configuration

_HEAD = struct.Struct("<BBHHHH")
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
    """Total over what `encode_configuration` made; the entry's checksum has been verified before."""
    version, auto_leave, voters, outgoing, learners, learners_next = _HEAD.unpack_from(data)
    assert version == _VERSION, f"configuration of version {version}"
    ids = struct.unpack_from(f"<{voters + outgoing + learners + learners_next}Q", data, _HEAD.size)
    ends = (voters, voters + outgoing, voters + outgoing + learners)
    return Configuration(
        voters=ids[: ends[0]],
        outgoing=ids[ends[0] : ends[1]],
        learners=ids[ends[1] : ends[2]],
        learners_next=ids[ends[2] :],
        auto_leave=bool(auto_leave),
    )
