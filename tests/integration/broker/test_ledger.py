"""The ledger notices: for each thing that it promises to see, a history in which that happened."""

import pytest

from flotilla.client.reader.message import Message
from flotilla.types.errors import DiskFullError, OutcomeUnknownError
from tests.integration.broker.ledger import Ledger

A, B, C = b"p/0 x", b"p/1 x", b"q/0 x"


def ledger() -> Ledger:
    """A and B were acknowledged, C may be stored or not, p/2 was refused."""
    written = Ledger("t")
    for offset, payload in enumerate((A, B)):
        written.note_sent(payload)
        written.note_acked(payload, 0, offset, sent_s=0.0)
    written.note_sent(C)
    written.note_failed(C, OutcomeUnknownError("?"))
    written.note_sent(b"p/2 x")
    written.note_failed(b"p/2 x", DiskFullError("no"))
    return written


def stored(*payloads: bytes) -> list[Message]:
    return [Message("t", 0, offset, payload) for offset, payload in enumerate(payloads)]


@pytest.mark.parametrize("payloads", [(A, B), (A, B, C)])
def test_a_good_history(payloads: tuple[bytes, ...]) -> None:
    ledger().judge(stored(*payloads))


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        (stored(A), "was acknowledged at"),
        (stored(C, A, B), "was acknowledged at"),
        (stored(A, B, A), "more than once"),
        (stored(A, B, C, C), "more than once"),
        (stored(A, B, b"p/2 x"), "refused and stored"),
        (stored(A, B, b"z/0 x"), "never sent"),
        ([*stored(A, B), Message("t", 0, 3, C)], "is missing"),
    ],
)
def test_a_bad_history(messages: list[Message], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        ledger().judge(messages)


def test_records_out_of_order() -> None:
    written = Ledger("t")
    for offset, payload in enumerate((B, A)):
        written.note_sent(payload)
        written.note_acked(payload, 0, offset, sent_s=0.0)
    with pytest.raises(AssertionError, match="stands behind a later one"):
        written.judge(stored(B, A))


def test_one_place_is_promised_once() -> None:
    written = ledger()
    written.note_sent(b"q/1 x")
    with pytest.raises(AssertionError, match="promised one place"):
        written.note_acked(b"q/1 x", 0, 1, sent_s=0.0)
