"""The ledger detects a lost, moved or doubled message."""

from flotilla.cli.demo.ledger import Ledger, Place


def balanced():
    ledger = Ledger()
    for offset in range(3):
        number = ledger.next_number()
        ledger.note_acknowledged(number, Place(0, offset))
        ledger.note_read(number, Place(0, offset))
    return ledger


def test_everything_once_is_balanced():
    ledger = balanced()
    assert (ledger.lost, ledger.doubled, ledger.is_balanced) == ([], {}, True)


def test_reading_the_same_place_again_is_no_double():
    ledger = balanced()
    ledger.note_read(1, Place(0, 0))
    assert ledger.is_balanced


def test_an_acknowledged_message_that_is_not_read_is_lost():
    ledger = balanced()
    ledger.note_acknowledged(ledger.next_number(), Place(0, 3))
    assert ledger.lost == [4]
    assert not ledger.is_balanced


def test_a_message_at_another_place_than_promised_is_lost():
    ledger = balanced()
    number = ledger.next_number()
    ledger.note_acknowledged(number, Place(0, 3))
    ledger.note_read(number, Place(0, 4))
    assert ledger.lost == [number]


def test_a_message_at_two_places_is_doubled():
    ledger = balanced()
    ledger.note_read(2, Place(1, 0))
    assert list(ledger.doubled) == [2]
    assert not ledger.is_balanced


def test_a_refused_message_may_be_stored_but_only_once():
    ledger = balanced()
    number = ledger.next_number()
    ledger.note_failed(number, "OUTCOME_UNKNOWN: x")
    ledger.note_read(number, Place(0, 3))
    assert ledger.is_balanced
    ledger.note_read(number, Place(0, 4))
    assert not ledger.is_balanced


def test_no_traffic_proves_nothing():
    assert not Ledger().is_balanced
