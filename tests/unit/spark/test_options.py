"""The table of options."""

import os
import pickle
import re
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the spark extra")

from flotilla.spark.options import (
    READ,
    READ_STREAM,
    TABLE,
    WRITE,
    WRITE_STREAM,
    OptionError,
    Options,
    check_place,
    read_options,
)


def test_names_in_any_case_and_defaults_for_the_rest():
    options = read_options({"SUBSCRIBE": "a, b,a", "maxoffsetspertrigger": "10", "fetchBytes": "2MiB"})
    assert options == Options(subscribe=("a", "b"), max_offsets_per_trigger=10, fetch_bytes=2 << 20)


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [("0", 0), ("1500", 1_500), ("1970-01-01T00:00:01.5Z", 1_500), ("1970-01-01T00:00:02", 2_000),
     ("1970-01-01T01:00:00+01:00", 0)],
)  # fmt: skip
def test_times(text, time_ms):
    assert read_options({"startingTimestamp": text}).starting_timestamp_ms == time_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [("earliest", "earliest"), ("LATEST", "latest"), ('{"t": {"0": 7, "1": -2}}', {"t": {0: 7, 1: -2}}), ("{}", {})],
)
def test_offsets(text, expected):
    assert read_options({"startingOffsets": text}).starting_offsets == expected


def test_partitions_by_name():
    options = read_options({"assign": '{"b": [2, 0, 2], "a": [1]}'})
    assert options.assign == (("b", 2), ("b", 0), ("a", 1))
    assert options.topics == ("b", "a")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("assign", "orders"),
        ("assign", "{}"),
        ("assign", '{"t": []}'),
        ("assign", '{"t": 3}'),
        ("assign", '{"t": [-1]}'),
        ("assign", '{"t": ["0"]}'),
        ("assign", '{"t": [true]}'),
        ("servers", "no port"),
        ("servers", ""),
        ("timeoutMs", "0"),
        ("subscribe", "a,,b"),
        ("subscribePattern", "("),
        ("startingOffsets", "yesterday"),
        ("startingOffsets", "[]"),
        ("startingOffsets", '{"t": 3}'),
        ("startingOffsets", '{"t": {"0": -3}}'),
        ("startingOffsets", '{"t": {"0": 1.5}}'),
        ("startingOffsets", '{"t": {"0": true}}'),
        ("startingOffsets", '{"t": {"x": 1}}'),
        ("startingTimestamp", "noon"),
        ("startingTimestamp", "-5"),
        ("endingTimestamp", "1969-01-01"),
        ("maxOffsetsPerTrigger", "0"),
        ("maxBytesPerTrigger", "much"),
        ("failOnDataLoss", "maybe"),
        ("fetchBytes", "9MiB"),
        ("deliveryGuarantee", "twice"),
        ("compression", "zip"),
        ("version", "-1"),
    ],
)
def test_a_value_that_cannot_be_is_named_with_what_can(name, text):
    with pytest.raises(OptionError, match=f"option {name} takes "):
        read_options({name: text})


def test_an_unknown_option_is_named_with_the_nearest():
    with pytest.raises(OptionError, match="'startingoffset'; did you mean startingOffsets"):
        read_options({"startingoffset": "earliest"})
    with pytest.raises(ValueError, match="there is no option 'zzz'; there are servers"):
        read_options({"zzz": ""})
    with pytest.raises(OptionError, match=r"'kafka.bootstrap.servers': it is called servers here"):
        read_options({"kafka.bootstrap.servers": "localhost:9092"})


def test_secrets_are_files_and_never_part_of_options(tmp_path):
    """Options travel in plans, to executors and to Spark's pages."""
    for name in ("password", "token", "tlsKeyPassword"):
        with pytest.raises(OptionError, match=f"there is no option '{name.lower()}'"):
            read_options({name.lower(): "planted"})
    file = tmp_path / "password"
    file.write_text("planted\n")
    file.chmod(0o600)
    options = read_options({"user": "anna", "passwordFile": str(file)})
    assert b"planted" not in pickle.dumps(options)
    assert "planted" not in repr(options)


def test_rows_go_to_the_topic_or_to_the_one_that_a_view_reads():
    assert read_options({"topic": "t", "subscribe": "u"}).target == "t"
    assert read_options({"subscribe": "u"}).target == "u"
    assert read_options({"subscribe": "u,v"}).target == ""


@pytest.mark.parametrize(
    ("given", "place", "words"),
    [
        ({"subscribe": "t"}, READ, None),
        ({"subscribePattern": "t.*", "group": "g"}, READ_STREAM, None),
        ({"topic": "t", "applicationId": "a", "version": "0"}, WRITE, None),
        ({"topic": "t", "checkpointlocation": "x", "queryname": "n", "path": "p"}, WRITE_STREAM, None),
        ({"subscribe": "t", "provider": "flotilla", "owner": "ann", "option.subscribe": "t"}, READ, None),
        ({"subscribe": "t", "columns": "key,value"}, WRITE, None),
        ({"subscribe": "t"}, WRITE_STREAM, "option subscribe is not for writeStream"),
        ({"subscribe": "t", "group": "g"}, READ, "option group is not for read, only for readStream"),
        ({"subscribe": "t", "endingOffsets": "latest"}, READ_STREAM, "option endingOffsets is not for readStream"),
        ({"subscribe": "t", "subscribePattern": "t"}, READ, "one of the options"),
        ({}, READ, "one of the options"),
        ({"subscribe": "t", "assign": '{"t": [0]}'}, READ, "one of the options"),
        ({"assign": '{"t": [0]}', "startingOffsets": '{"t": {"0": 1}}'}, READ_STREAM, None),
        ({"assign": '{"t": [0]}', "startingOffsets": '{"u": {"0": 1}}'}, READ, "names topic 'u', which assign"),
        ({"subscribe": "t", "startingOffsets": "latest", "startingTimestamp": "1"}, READ, "Timestamp, not both"),
        ({"subscribe": "t", "endingOffsets": "earliest"}, READ, "cannot be earliest"),
        ({"subscribe": "t", "startingOffsets": '{"u": {"0": 1}}'}, READ, "names topic 'u'"),
        ({"subscribe": "t", "lake": "l", "includeDecoded": "true"}, READ, None),
        ({"subscribe": "t", "includeDecoded": "true"}, READ, "goes with lake and with one topic"),
        ({"subscribe": "t,u", "lake": "l", "includeDecoded": "true"}, READ_STREAM, "with one topic"),
        (
            {"subscribe": "t", "lake": "l", "includeDecoded": "true", "valueSchema": "topic:t"},
            READ,
            "takes the schema of the archive",
        ),
        ({"topic": "t", "version": "1"}, WRITE, "go together"),
        ({"topic": "t", "applicationId": "a", "version": "1"}, WRITE_STREAM, "not for writeStream"),
    ],
)
def test_options_belong_somewhere(given, place, words):
    if words is None:
        check_place(given, read_options(given), place)
        return
    with pytest.raises(OptionError, match=words):
        check_place(given, read_options(given), place)


def row_of_page(row, default: str) -> str:
    only = f" ({row.places[0]} only)" if len(row.places) == 1 else ""
    return f"| `{row.name}` | {row.allowed} | {default} | {row.help}{only} |"


def test_the_page_has_the_row_of_every_option():
    """REWRITE=1 writes the rows again; the column of defaults is written by hand."""
    path = Path(__file__).parents[3] / "docs" / "spark.md"
    page = path.read_text("utf-8")
    for row in TABLE:
        found = re.search(rf"^\| `{row.name}` \| .* \| (.*) \| .* \|$", page, re.MULTILINE)
        assert found, row.name
        page = page.replace(found[0], row_of_page(row, found[1]))
    if os.environ.get("REWRITE"):
        path.write_text(page, "utf-8")
    assert path.read_text("utf-8") == page, "run REWRITE=1 pytest tests/unit/spark/test_options.py"
