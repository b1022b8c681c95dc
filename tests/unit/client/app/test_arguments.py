"""Arguments of tasks survive JSON, and what does not fit is refused."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import pytest

from flotilla import InvalidArgumentError, WrongTypeError
from flotilla.client.app._arguments import Signature


class Colour(Enum):
    RED = "red"


@dataclass
class Address:
    street: str
    number: int = 1


VALUES = [
    (int, 5),
    (float, 1.5),
    (bool, True),
    (str, "grüße"),
    (bytes, b"\x00\xff"),
    (None, None),
    (int | None, None),
    (list[int], [1, 2]),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2, 3)),
    (set[str], {"a", "b"}),
    (dict[str, list[float]], {"a": [1.0]}),
    (datetime, datetime(2026, 5, 1, 12, tzinfo=UTC)),
    (date, date(2026, 5, 1)),
    (timedelta, timedelta(minutes=5)),
    (Decimal, Decimal("1.10")),
    (UUID, UUID(int=7)),
    (Colour, Colour.RED),
    (Literal["a", "b"], "a"),
    (Address, Address("main", 7)),
    (list[Address], [Address("main")]),
    (Any, {"free": [1, None]}),
]


def signature_of(hint: Any) -> Signature:
    def function(value):
        """Takes one."""

    function.__annotations__["value"] = hint
    return Signature(function)


@pytest.mark.parametrize(("hint", "value"), VALUES)
def test_a_value_arrives_as_it_was_sent(hint, value):
    signature = signature_of(hint)
    assert signature.decode(signature.encode((value,), {})) == {"value": value}


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, "5"),
        (int, True),
        (int, 1.5),
        (str, 5),
        (float, "1"),
        (list[int], ["a"]),
        (tuple[int, str], (1,)),
        (dict[str, int], [1]),
        (datetime, "yesterday"),
        (UUID, "x"),
        (Colour, "blue"),
        (Literal["a"], "b"),
        (Address, {"street": 5}),
        (Address, {"city": "x"}),
        (bytes, "not base64!"),
        (int | None, "5"),
        (Any, object()),
        (Any, {1: 2}),
    ],
)
def test_a_value_that_does_not_fit_is_refused_where_it_is_sent(hint, value):
    with pytest.raises(WrongTypeError, match="value"):
        signature_of(hint).encode((value,), {})


@pytest.mark.parametrize("payload", [b"{", b"[]", b"{}", b'{"value": 1, "other": 2}', b'{"value": "x"}', b"\xff"])
def test_a_payload_that_does_not_fit_is_refused_where_it_arrives(payload):
    with pytest.raises(InvalidArgumentError):
        signature_of(int).decode(payload)


def test_arguments_are_named_and_defaults_stay_with_the_function():
    def function(a: int, b: int = 2, *, c: int = 3, **more: int) -> None: ...

    signature = Signature(function)
    assert signature.encode((1,), {"c": 4, "d": 5}) == b'{"a":1,"c":4,"d":5}'
    assert signature.decode(b'{"a":1}') == {"a": 1}
    assert Signature(lambda: None).decode(b"") == {}
    with pytest.raises(TypeError, match="missing"):
        signature.encode((), {})
    with pytest.raises(ValueError, match="JSON"):
        signature_of(float).encode((float("nan"),), {})


def test_arguments_without_names_are_refused():
    for function in (lambda *values: None, lambda value, /: None):
        with pytest.raises(InvalidArgumentError, match="has no name"):
            Signature(function)
