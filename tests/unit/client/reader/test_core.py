"""A reader asks ahead within its bounds, and hands out each message once and in order."""

import pytest

from flotilla.client.reader._core import ReaderCore, ReaderOptions
from flotilla.client.reader.message import Message
from flotilla.codec.batch.header import patch_base_offset
from flotilla.codec.batch.records import encode_batch
from flotilla.types.errors import CorruptionError, InvalidArgumentError, OffsetOutOfRangeError, UnavailableError
from flotilla.types.filters import MessageFilter
from flotilla.types.operations import EARLIEST, Fetch, Fetched, ListOffsets, OffsetFound
from flotilla.types.records import Record


def batch(base: int, *values: bytes) -> bytes:
    data = bytearray(encode_batch([Record(value, timestamp_ms=5) for value in values]))
    patch_base_offset(data, base, 1)
    return bytes(data)


def fetched(*batches: bytes, log_start: int = 0) -> Fetched:
    return Fetched(list(batches), log_start, 1_000)


def reader(*, partitions: int = 1, position: int = 0, **options) -> ReaderCore:
    return ReaderCore("orders", dict.fromkeys(range(partitions), position), ReaderOptions(**options))


def offsets(messages: list[Message]) -> list[int]:
    return [message.offset for message in messages]


def test_messages_come_in_order_and_move_the_position():
    subject = reader()
    ((generation, request),) = subject.wanted()
    assert request == Fetch("orders", 0, 0, ReaderOptions().fetch_bytes, ReaderOptions().long_poll_ms)
    subject.arrived(0, generation, fetched(batch(0, b"a", b"b"), batch(2, b"c")))
    assert subject.take(1) == [Message("orders", 0, 0, b"a", timestamp_ms=5)]
    assert subject.positions == {0: 1}
    assert subject.take_one().payload == b"b"
    assert offsets(subject.take(10)) == [2]
    assert subject.take(10) == []
    assert subject.take_one() is None
    assert subject.positions == {0: 3}


def test_a_batch_that_begins_before_the_position_is_skipped_into():
    subject = reader(position=3)
    subject.arrived(0, 0, fetched(batch(2, b"c", b"d", b"e")))
    assert offsets(subject.take(10)) == [3, 4]


def test_a_batch_that_came_before_is_not_handed_out_again():
    subject = reader()
    subject.arrived(0, 0, fetched(batch(0, b"a", b"b")))
    subject.arrived(0, 0, fetched(batch(0, b"a", b"b"), batch(2, b"c")))
    subject.arrived(0, 0, fetched(batch(0, b"a", b"b")))
    assert offsets(subject.take(10)) == [0, 1, 2]
    ((_, request),) = subject.wanted()
    assert request.offset == 3


def test_the_next_fetch_is_made_before_the_last_one_is_used_up():
    subject = reader(fetch_bytes=10)
    subject.wanted()
    assert subject.wanted() == [], "one at a time"
    subject.arrived(0, 0, fetched(batch(0, b"a", b"b")))
    assert offsets(subject.take(1)) == [0]
    ((_, request),) = subject.wanted()
    assert request.offset == 2


def test_the_next_fetch_follows_an_answer_before_it_is_read():
    subject = reader(fetch_bytes=100)
    subject.wanted()
    answer = fetched(batch(0, b"a"), batch(1, b"b"))
    following = subject.following(0, 0, answer)
    assert following == Fetch("orders", 0, 2, 100, ReaderOptions().long_poll_ms)
    subject.arrived(0, 0, answer, is_followed=True)
    assert subject.following(0, 0, fetched(batch(2, b"c"))) is None, "the first answer is not collected yet"
    assert offsets(subject.take(10)) == [0, 1]
    assert subject.wanted() == [], "it is in flight"
    subject.arrived(0, 0, fetched(batch(2, b"c")))
    assert offsets(subject.take(10)) == [2]
    ((_, request),) = subject.wanted()
    assert request.offset == 3


@pytest.mark.parametrize(
    ("answer", "generation"),
    [
        (UnavailableError("later"), 0),
        (fetched(), 0),
        (fetched(b"rubbish"), 0),
        (fetched(batch(0, b"a"), b"rubbish"), 0),
        (fetched(b"rubbish", batch(0, b"a")), 0),
        (fetched(batch(0, b"a")), 1),
    ],
)
def test_nothing_follows_an_answer_that_has_to_be_looked_at(answer, generation):
    assert reader().following(0, generation, answer) is None


@pytest.mark.parametrize(("partitions", "is_followed"), [(2, True), (3, False)])
def test_the_following_fetch_stays_within_the_bound(partitions, is_followed):
    subject = reader(partitions=partitions, fetch_bytes=100, buffer_bytes_max=400)
    assert (subject.following(0, 0, fetched(batch(0, b"a"))) is not None) is is_followed


def test_a_fetch_that_follows_is_forgotten_by_a_seek():
    subject = reader()
    subject.wanted()
    subject.arrived(0, 0, fetched(batch(0, b"a")), is_followed=True)
    subject.take(10)
    subject.seek(0, 7)
    ((generation, request),) = subject.wanted()
    assert request.offset == 7
    subject.arrived(0, 0, fetched(batch(1, b"b")), is_followed=True)
    subject.arrived(0, generation, fetched(batch(7, b"h")))
    assert offsets(subject.take(10)) == [7]
    assert subject.following(0, generation, fetched(batch(8, b"i"))) is not None


def test_a_partition_that_waits_to_be_read_is_not_fetched():
    subject = reader(partitions=2, fetch_bytes=10)
    subject.wanted()
    subject.arrived(0, 0, fetched(batch(0, b"a"), batch(1, b"b")))
    subject.arrived(1, 0, fetched(batch(0, b"x"), batch(1, b"y")))
    subject.take(1)
    assert [request.partition for _, request in subject.wanted()] == []
    subject.take(1)
    assert [request.partition for _, request in subject.wanted()] == [0]


def test_prefetching_is_bounded_over_all_partitions():
    subject = reader(partitions=10, fetch_bytes=100, buffer_bytes_max=300)
    assert len(subject.wanted()) == 3
    small = reader(partitions=2, fetch_bytes=1_000, buffer_bytes_max=10)
    assert len(small.wanted()) == 1, "there is always a way to go on"


def test_seeking_drops_fetched_batches_and_the_fetch_in_flight():
    subject = reader()
    subject.wanted()
    subject.arrived(0, 0, fetched(batch(0, b"a", b"b", b"c")))
    subject.take(1)
    subject.wanted()
    subject.seek(0, 7)
    subject.arrived(0, 0, fetched(batch(3, b"late")))
    assert subject.take(10) == []
    ((generation, request),) = subject.wanted()
    assert request.offset == 7
    subject.arrived(0, generation, fetched(batch(7, b"h")))
    assert offsets(subject.take(10)) == [7]


def test_seeking_backwards_is_not_confused_by_later_batches():
    subject = reader()
    subject.wanted()
    subject.arrived(0, 0, fetched(batch(0, b"a"), batch(1, b"b")))
    subject.take(1)
    subject.wanted()
    subject.seek(0, 0)
    subject.arrived(0, 0, fetched(batch(2, b"late")))
    assert subject.take(10) == []
    ((generation, request),) = subject.wanted()
    assert request.offset == 0
    subject.arrived(0, generation, fetched(batch(0, b"a"), batch(1, b"b"), batch(2, b"c")))
    assert offsets(subject.take(10)) == [0, 1, 2]


@pytest.mark.parametrize(("partition", "offset"), [(5, 0), (0, -1)])
def test_a_seek_to_nowhere(partition, offset):
    with pytest.raises(InvalidArgumentError):
        reader().seek(partition, offset)


def test_an_error_is_raised_after_all_earlier_messages():
    subject = reader(partitions=2)
    subject.arrived(0, 0, UnavailableError("no"))
    subject.arrived(1, 0, fetched(batch(0, b"a")))
    assert offsets(subject.take(10)) == [0]
    with pytest.raises(UnavailableError):
        subject.take(10)
    assert subject.take(10) == []


def test_removed_records_are_an_error_until_a_seek():
    subject = reader(position=3)
    subject.arrived(0, 0, fetched(batch(8, b"i"), log_start=8))
    with pytest.raises(OffsetOutOfRangeError, match=r"offsets 3 to 7 .* seek"):
        subject.take(10)
    subject.seek(0, 8)
    ((generation, _),) = subject.wanted()
    subject.arrived(0, generation, fetched(batch(8, b"i")))
    assert offsets(subject.take(10)) == [8]


def test_removed_records_can_be_skipped():
    subject = reader(position=3, skip_removed=True)
    subject.arrived(0, 0, fetched(batch(8, b"i"), log_start=8))
    assert offsets(subject.take(10)) == [8]


def test_an_empty_answer_after_removed_records():
    subject = reader(position=3, skip_removed=True)
    subject.arrived(0, 0, fetched(log_start=8))
    subject.take(1)
    ((_, request),) = subject.wanted()
    assert request.offset == 8
    assert subject.positions == {0: 8}


def test_an_offset_out_of_range_is_looked_up_when_it_may_be_skipped():
    subject = reader(position=3, skip_removed=True)
    subject.wanted()
    subject.arrived(0, 0, OffsetOutOfRangeError("3 is not in 8 to 9"))
    subject.take(1)
    ((generation, request),) = subject.wanted()
    assert request == ListOffsets("orders", 0, EARLIEST)
    subject.arrived(0, generation, OffsetFound(8))
    subject.take(1)
    assert subject.positions == {0: 8}


def test_an_offset_beyond_the_end_is_not_skipped_backwards():
    subject = reader(position=30, skip_removed=True)
    subject.arrived(0, 0, OffsetOutOfRangeError("30 is not in 8 to 9"))
    subject.take(1)
    subject.wanted()
    subject.arrived(0, 0, OffsetFound(8))
    with pytest.raises(OffsetOutOfRangeError, match="does not exist yet"):
        subject.take(1)
    assert subject.positions == {0: 30}


@pytest.mark.parametrize("position", [70, -1])
def test_damage_is_never_served(position):
    damaged = bytearray(batch(0, b"a" * 50))
    damaged[position] ^= 1
    subject = reader()
    subject.arrived(0, 0, fetched(bytes(damaged)))
    with pytest.raises(CorruptionError):
        subject.take(1)
    ((generation, request),) = subject.wanted()
    assert request.offset == 0, "another copy may be sound"
    subject.arrived(0, generation, fetched(batch(0, b"a")))
    assert offsets(subject.take(1)) == [0]


def test_a_malformed_batch_is_an_error():
    subject = reader()
    subject.arrived(0, 0, fetched(b"nonsense"))
    with pytest.raises(CorruptionError):
        subject.take(1)


# Filters.


def test_a_filter_travels_with_each_fetch_and_skips_what_does_not_match():
    subject = reader(wanted=MessageFilter(("a",), (("n", b"1"),)))
    ((generation, request),) = subject.wanted()
    assert (request.types, request.headers) == (["a"], [("n", b"1")])
    answer = Fetched([batch(2, b"c"), batch(5, b"f", b"g")], 0, 1_000, 9)
    assert subject.following(0, generation, answer).offset == 9
    subject.arrived(0, generation, answer, is_followed=True)
    assert offsets(subject.take(2)) == [2, 5]
    assert subject.positions == {0: 6}
    assert offsets(subject.take(10)) == [6]
    assert subject.positions == {0: 9}


def test_the_position_moves_although_nothing_matched():
    subject = reader(wanted=MessageFilter(("a",)))
    subject.wanted()
    subject.arrived(0, 0, Fetched([], 0, 50, 40))
    assert subject.take_one() is None
    assert subject.positions == {0: 40}
    ((generation, request),) = subject.wanted()
    assert request.offset == 40
    subject.seek(0, 3)
    subject.arrived(0, generation, Fetched([], 0, 50, 50))
    assert subject.take(1) == []
    assert subject.positions == {0: 3}, "the answer was for another position"
