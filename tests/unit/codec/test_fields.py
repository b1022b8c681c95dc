"""Rows by the names of fields: what does not fit is found when the row is made, not when a request comes."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest

from flotilla.codec.fields import columns, fields_of
from flotilla.codec.generated import client_pb2
from flotilla.types.errors import InvalidArgumentError

MESSAGE = client_pb2.ListOffsets.DESCRIPTOR


@dataclass
class Asked:
    topic: str
    partition: int
    timestamp_ms: int = 5


@dataclass
class Otherwise:
    name: str
    partition: int
    note: str = "none"


class Row(NamedTuple):
    partition: int
    epoch: int


def test_fields_of_the_same_name_are_copied() -> None:
    rows = fields_of(Asked, MESSAGE)
    body = client_pb2.ListOffsets()
    rows.write(body, Asked("t", 3, 7))
    assert (body.topic, body.partition, body.timestamp_ms) == ("t", 3, 7)
    assert rows.read(body) == Asked("t", 3, 7)


def test_fields_that_differ_are_declared() -> None:
    rows = fields_of(Otherwise, MESSAGE, name="topic", note=None)
    body = client_pb2.ListOffsets()
    rows.write(body, Otherwise("t", 3, "stays here"))
    assert rows.read(body) == Otherwise("t", 3)


def test_a_field_that_the_message_does_not_have_is_found_at_once() -> None:
    with pytest.raises(AssertionError, match="ListOffsets has no field name for Otherwise"):
        fields_of(Otherwise, MESSAGE, note=None)
    with pytest.raises(AssertionError, match="Asked has no field"):
        fields_of(Asked, MESSAGE, topics="topic")


def test_columns_are_equally_long() -> None:
    part = columns(Row, "partitions and epochs", "partitions", "epochs")
    body = client_pb2.GroupAssignment()
    part.write(body, [Row(1, 2), Row(3, 4)])
    assert part.read(body) == [Row(1, 2), Row(3, 4)]
    body.epochs.append(5)
    with pytest.raises(InvalidArgumentError, match="partitions and epochs are not equally many"):
        part.read(body)
