"""Types as SQL writes them: read, written, and merged."""

import pytest

pytest.importorskip("pyarrow", reason="the extra lake")

import pyarrow as pa

from flotilla.lake.values.sql_types import merged_type, read_columns, write_type
from flotilla.types.errors import InvalidArgumentError

ALL = (
    "STRUCT<`a`: BOOLEAN, `b`: TINYINT, `c`: SMALLINT, `d`: INT, `e`: BIGINT, `f`: FLOAT, `g`: DOUBLE, `h`: STRING, "
    "`i`: BINARY, `j`: DATE, `k`: TIMESTAMP, `l`: DECIMAL(12, 3), `m`: ARRAY<MAP<STRING, INT>>, "
    "`n ``o`: STRUCT<`p`: ARRAY<STRUCT<`q`: INT>>>>"
)


def test_every_type_is_read_as_it_is_written() -> None:
    kind = read_columns(f"x {ALL}").field(0).type
    assert write_type(kind) == ALL
    assert kind.field("k").type == pa.timestamp("us", "UTC")


def test_spellings() -> None:
    text = (
        "id bigint NOT NULL COMMENT 'the id, (unique)', n: integer,\n p decimal, q decimal(5), s struct<x int, y: long>"
    )
    assert write_type(read_columns(text)) == (
        "STRUCT<`id`: BIGINT, `n`: INT, `p`: DECIMAL(10, 0), `q`: DECIMAL(5, 0), `s`: STRUCT<`x`: INT, `y`: BIGINT>>"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "end too early"),
        ("id", "end too early"),
        ("id INT,", "end too early"),
        ("id INT x", "not understood at 'x'"),
        ("id ARRAY<INT", "not understood at their end"),
        ("id ARRAY INT", "not understood at 'INT'"),
        ("id INT) ", r"not understood at '\)'"),
        (", INT", "not understood at ','"),
        ("id INTERVAL", "no type 'INTERVAL'"),
        ("id DECIMAL(39)", "1 to 38 digits"),
        ("id DECIMAL(x)", "not understood at 'x'"),
        ("id INT; DROP", "no part of a type"),
        ("id INT, ID INT", "a name twice"),
        ("x " + "ARRAY<" * 40 + "INT" + ">" * 40, "32 deep"),
    ],
)
def test_what_is_no_type_is_told(text: str, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        read_columns(text)


def test_fields_are_added_and_keep_their_types() -> None:
    old = read_columns("id INT, inner STRUCT<a: INT>, list ARRAY<STRUCT<a: INT>>, map MAP<STRING, STRUCT<a: INT>>")
    new = read_columns(
        "Id INT, inner STRUCT<b: INT, a: BIGINT>, list ARRAY<STRUCT<b: INT>>, map MAP<STRING, STRUCT<b: INT>>, "
        "more DATE"
    )
    kept: list[str] = []
    assert write_type(merged_type(old, new, kept)) == (
        "STRUCT<`id`: INT, `inner`: STRUCT<`a`: INT, `b`: INT>, `list`: ARRAY<STRUCT<`a`: INT, `b`: INT>>, "
        "`map`: MAP<STRING, STRUCT<`a`: INT, `b`: INT>>, `more`: DATE>"
    )
    assert kept == [
        "Id differs only in its case from id, which stays",
        "inner.a stays INT, and does not become BIGINT",
    ]
