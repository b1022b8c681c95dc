"""The bytes of every request and reply, as an earlier version wrote them: the contract does not move by accident.

Each line of recorded_frames.txt is a direction, a kind, the number of a sample and its bytes. A kind that is new is
recorded by `python -m tests.unit.codec.test_recorded_frames`, which only adds lines.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flotilla.codec.client.frames import (
    REPLY_ROWS,
    REQUEST_ROWS,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from flotilla.codec.grpc import calls
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.operations import CommitOffset, Fetch, OffsetCommitted, ReadOffset
from flotilla.types.operations.pipelines import ReportPipeline
from flotilla.types.operations.queue import (
    GroupDescription,
    GroupList,
    GroupReset,
    Pushed,
    RecordsCancelled,
    Start,
    Subscribe,
)
from flotilla.types.operations.transactions import CommitTransaction, Staged
from tests.unit.codec.samples import COUNT, filled, samples

FILE = Path(__file__).with_name("recorded_frames.txt")
#: What each call to several partitions gets from one of them.
OF_PARTITIONS = {
    "CancelMessages": RecordsCancelled,
    "ListGroups": GroupList,
    "DescribeGroup": GroupDescription,
    "ResetGroup": GroupReset,
}


def lines() -> Iterator[str]:
    for label, rows, encode in (("request", REQUEST_ROWS, encode_request), ("reply", REPLY_ROWS, encode_response)):
        for row in rows:
            for number, value in enumerate(samples(row.kind)):
                yield f"{label} {row.kind.__name__} {number} {b''.join(encode(number + 1, value)).hex()}"  # type: ignore[operator]
    for call in calls.REQUESTS:
        yield from _lines_of_call(call)
    for call in (*calls.OF_PARTITIONS, calls.RESET_GROUP):
        for number, reply in enumerate(samples(OF_PARTITIONS[call.name])):
            written = call.write(None, {5: reply}).SerializeToString(deterministic=True)
            yield f"grpc-reply {call.name} {number} {written.hex()}"


def _lines_of_call(call: calls.Call) -> Iterator[str]:
    for number in range(COUNT):
        message = filled(calls.decoder(call.name)(b""), number)
        try:
            asked = call.read(message)
        except InvalidArgumentError:
            yield f"grpc-request {call.name} {number} InvalidArgumentError"
            continue
        yield f"grpc-request {call.name} {number} {b''.join(encode_request(number + 1, asked)).hex()}"
        if number == 1:
            for place, reply in enumerate(samples(type(asked).reply)):
                written = call.write(asked, reply).SerializeToString(deterministic=True)
                yield f"grpc-reply {call.name} {place} {written.hex()}"


RECORDED = FILE.read_text().splitlines()


@pytest.mark.parametrize("kind", sorted({line.rsplit(" ", 2)[0] for line in [*RECORDED, *lines()]}))
def test_the_bytes_are_those_that_were_recorded(kind: str) -> None:
    recorded = [line for line in RECORDED if line.startswith(f"{kind} ")]
    assert recorded, "a new kind is recorded first"
    assert [line for line in lines() if line.startswith(f"{kind} ")] == recorded


@pytest.mark.parametrize("row", [*REQUEST_ROWS, *REPLY_ROWS], ids=lambda row: row.kind.__name__)
def test_samples_come_out_as_they_went_in(row: object) -> None:
    encode, decode = (encode_request, decode_request) if row in REQUEST_ROWS else (encode_response, decode_response)
    for value in samples(row.kind):  # type: ignore[attr-defined]
        assert decode(b"".join(encode(1, value))[4:])[1] == value  # type: ignore[operator]


def test_subscriptions_of_earlier_programs_are_read() -> None:
    """They name neither the lag nor the bytes, and present no leases."""
    pushed = bytes.fromhex(
        "0000002f00000024080272200a1b0a02e0021202b6051a028a082202e10a2a02ba0d3201073a02e91210bb0562617463682036"
    )
    answer = decode_response(pushed[4:])[1]
    assert isinstance(answer, Pushed)
    assert (len(answer.deliveries), answer.lag, answer.left_partitions) == (1, -1, [])
    asked = decode_request(bytes.fromhex("000000150000001108019a010c200330054a04081010125009")[4:])[1]
    assert asked == Subscribe("", "", "", 3, visibility_ms=5, start=Start(8, 9), topic_id=9)
    assert (asked.presents, asked.max_bytes) == (False, 0)


def test_fetches_of_earlier_programs_are_read() -> None:
    """They search for nothing."""
    fetch = bytes.fromhex(
        "0000004d00000049080222450a09746f7069632d31c3a910b705188b0820e50a28ba0d3001380140c0154a0974797065732d39c3a9521a0a"
        "0c686561646572732d3130c3a9120a68656164657273203131"
    )
    asked = decode_request(fetch[4:])[1]
    assert isinstance(asked, Fetch)
    assert (asked.topic, asked.types, asked.key, asked.contains) == ("topic-1\u00e9", ["types-9\u00e9"], None, "")


def test_reports_of_earlier_programs_are_read() -> None:
    """They know nothing of lakes."""
    report = bytes.fromhex(
        "0000004b0000004708028208420a3e0a0669642d31c3a912086e616d652d32c3a91a0a746f706963732d33c3a9220967726f75702d34c3a9"
        "28c10d30961038f31240bd15489c1850ee1a58c81d1001"
    )
    asked = decode_request(report[4:])[1]
    assert isinstance(asked, ReportPipeline)
    assert (asked.pipeline.id, asked.pipeline.batch_ms, asked.is_over) == ("id-1\u00e9", 3_438, True)
    assert (asked.pipeline.lake, asked.pipeline.lake_bytes, asked.pipeline.lake_verified_ms) == ("", 0, 0)


def test_commits_of_earlier_programs_are_read() -> None:
    """They do not say in which topics their records are staged, and stages do not tell."""
    commit = bytes.fromhex(
        "0000006a000000660802fa01610a127472616e73616374696f6e5f69642d31c3a912126170706c69636174696f6e5f69642d"
        "33c3a918e30a22130a0e706172746974696f6e732d32c3a9108f082a110a0b6d656d626572732d35c3a9120291103092103a"
        "096f776e65722d37c3a9"
    )
    asked = decode_request(commit[4:])[1]
    assert isinstance(asked, CommitTransaction)
    assert (asked.partitions, asked.owner, asked.topic_ids) == ([("partitions-2\u00e9", 1_039)], "owner-7\u00e9", [])
    answer = decode_response(bytes.fromhex("0000000f0000000b0802b2010608dc0210b605")[4:])[1]
    assert isinstance(answer, Staged)
    assert answer.topic_id == 0


def test_positions_of_earlier_programs_are_read() -> None:
    """They say nothing of the time as of which a position is known."""
    commit = bytes.fromhex(
        "00000036000000320804322e0a0967726f75702d33c3a91209746f7069632d34c3a918fef89a6020bcf7b973280130c7f4f799013897f3"
        "96ad01"
    )
    asked = decode_request(commit[4:])[1]
    assert asked == CommitOffset(asked.group, asked.topic, 201_768_062, 242_121_660, True, 322_828_871, 363_182_487)  # type: ignore[attr-defined]
    read = bytes.fromhex("0000000c0000000808013a0418022003")
    assert decode_request(read[4:])[1] == ReadOffset("", "", 2, 3)
    answer = decode_response(bytes.fromhex("0000000b0000000708023a0308dd02")[4:])[1]
    assert answer == OffsetCommitted(349)


if __name__ == "__main__":
    known = {line.rsplit(" ", 1)[0] for line in RECORDED}
    FILE.write_text("\n".join([*RECORDED, *[line for line in lines() if line.rsplit(" ", 1)[0] not in known]]) + "\n")
