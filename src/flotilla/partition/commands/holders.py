"""The command that names the members of a queue group that may hold leases.

A leader leases nothing to a member before this has committed, so its successor knows whom to wait for. The empty name
stands for all members that have none of their own: they present no leases, or there are too many of them.

The body is u32 counts of those that joined and of those that left, and then their names as u16 length and UTF-8.
"""

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class whose name says too little alone

from flotilla.partition.commands.byte_reader import ByteReader, pack_text
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.ids import Index


@dataclass(frozen=True, slots=True)
class ChangeHolders:
    """Members of one group that may hold leases from now on, and members that hold none.

    Without names it says that the group has members: it is used.
    """

    group: str
    #: GroupState.generation when it was proposed: after a reset it is ignored.
    generation: Index
    now_ms: int
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


_COUNTS = Struct("<II")


def encode_holders(command: ChangeHolders) -> bytes:
    names = b"".join(map(pack_text, (*command.joined, *command.left)))
    return _COUNTS.pack(len(command.joined), len(command.left)) + names


def decode_holders(group: str, generation: Index, now_ms: int, data: bytes) -> ChangeHolders:
    """Raises InvalidArgumentError."""
    reader = ByteReader(data)
    try:
        joined, left = reader.take(_COUNTS)
        # A name takes more than a byte: a false count is refused before any work.
        if joined + left > len(data):
            raise StructError("cut short")
        names = [reader.text() for _ in range(joined + left)]
    except (StructError, UnicodeDecodeError) as error:
        raise InvalidArgumentError("a change of holders is cut short or garbled") from error
    if reader.left_bytes:
        raise InvalidArgumentError(f"a change of holders has {reader.left_bytes} bytes too many")
    return ChangeHolders(group, generation, now_ms, tuple(names[:joined]), tuple(names[joined:]))
