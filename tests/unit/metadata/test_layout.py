"""Layouts follow from annotations, and malformed bytes are refused."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.metadata.binary import Reader, Writer
from flotilla.metadata.layout import Layout, fields_of, layout_of
from flotilla.types.errors import InvalidArgumentError


class Point(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True)
class Shape:
    name: str
    is_closed: bool
    points: tuple[Point, ...]
    tags: tuple[tuple[str, int], ...]
    center: Point | None


def encode(layout: Layout, value: Any) -> bytes:
    writer = Writer()
    layout.write(writer, value)
    return writer.finish()


def decode(layout: Layout, data: bytes) -> Any:
    reader = Reader(data)
    value = layout.read(reader)
    reader.finish()
    return value


SHAPE = layout_of(Shape)


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (int, 300, "ac02"),
        (bool, True, "01"),
        (str, "é", "02c3a9"),
        (tuple[int, ...], (1, 2), "020102"),
        (tuple[str, int], ("a", 7), "016107"),
        (Point, Point(1, 2), "0102"),
        (Shape, Shape("s", False, (Point(1, 2),), (("t", 3),), None), "0173000101020101740300"),
        (Shape, Shape("", True, (), (), Point(4, 5)), "000100000405"),
    ],
)
def test_each_kind_of_type_has_one_layout(annotation: Any, value: Any, expected: str) -> None:
    layout = layout_of(annotation)
    assert encode(layout, value).hex() == expected
    assert decode(layout, bytes.fromhex(expected)) == value


def test_a_special_layout_takes_precedence_inside_a_type() -> None:
    doubled = Layout(lambda writer, value: writer.integer(2 * value), lambda reader: reader.integer() // 2)
    layout = layout_of(Point, {int: doubled})
    assert encode(layout, Point(1, 2)).hex() == "0204"
    assert decode(layout, b"\x02\x04") == Point(1, 2)


def test_fields_are_read_as_a_list_without_the_one_that_is_left_out() -> None:
    fields = fields_of(Point, without=["y"])
    assert encode(fields, Point(1, 2)) == b"\x01"
    assert decode(fields, b"\x01") == [1]


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_an_error(data: bytes) -> None:
    try:
        decode(SHAPE, data)
    except InvalidArgumentError:
        pass
