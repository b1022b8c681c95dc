"""The payloads of the queue workload: each names its message, which can so be followed from its producer to its end.

A payload begins with a mark: one for messages, another for dead letters, which name the queue group and the offset they
come from. Nothing here depends on what the product says about a message.
"""

from struct import Struct
from typing import Final, NamedTuple

from flotilla.codec.batch.records import encode_batch
from flotilla.types.ids import Offset
from flotilla.types.records import Record

_MESSAGE = Struct("<cQB")
_LETTER = Struct("<cQQ")
_MESSAGE_SIGN: Final = b"M"
_LETTER_SIGN: Final = b"D"

#: How a message is protected against being stored twice.
BY_NOTHING: Final = 0
BY_SEQUENCE: Final = 1
BY_KEY: Final = 2
BY_TRANSACTION: Final = 3


class Letter(NamedTuple):
    """A dead message in the dead-letter topic."""

    #: Of its death: after a reset a message can die again.
    number: int
    offset: Offset
    group: str


def message_value(identity: int, protection: int) -> bytes:
    return _MESSAGE.pack(_MESSAGE_SIGN, identity, protection)


def read_message(value: bytes) -> tuple[int, int]:
    """Identity and protection."""
    sign, identity, protection = _MESSAGE.unpack(value)
    assert sign == _MESSAGE_SIGN
    return identity, protection


def letter_value(letter: Letter) -> bytes:
    return _LETTER.pack(_LETTER_SIGN, letter.number, letter.offset) + letter.group.encode()


def read_letter(value: bytes) -> Letter:
    sign, number, offset = _LETTER.unpack_from(value)
    assert sign == _LETTER_SIGN
    return Letter(number, offset, value[_LETTER.size :].decode())


def letter_batch(letter: Letter, producer_id: int, time_ms: int) -> bytes:
    return encode_batch([Record(letter_value(letter), timestamp_ms=time_ms)], producer_id=producer_id)
