"""Schemas of requests: valid bodies pass, and others are refused with the reason."""

from typing import Any

import pytest

from flotilla.frontends.http.framework.operation import array, flag, integer, obj, text
from flotilla.frontends.http.framework.schema import Checker, read_json
from flotilla.types.errors import InvalidArgumentError

SCHEMA = obj(
    ("name",),
    name=text(1, 5, pattern="^[a-z]+$"),
    size=integer(0, 10, default=3),
    is_red=flag(),
    tags=array(text(0, 3), 0, 2),
    more={"type": "object", "additionalProperties": integer(0, 1), "maxProperties": 1},
    kind={"type": "string", "enum": ["a", "b"]},
    anything={},
)


def test_defaults_are_filled_in_and_the_rest_stays() -> None:
    given = {"name": "abc", "tags": ["x"], "more": {"a": 1}, "kind": "b", "anything": [None, {"x": 1.5}]}
    assert Checker(SCHEMA, "it").check(given) == {**given, "size": 3, "is_red": False}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "it is an object, not []"),
        ({}, "it needs the field name"),
        ({"name": "x", "nome": 1}, "it has no field nome; did you mean name?"),
        ({"name": "x", "zzz": 1}, "it has no field zzz; it has name, size,"),
        ({"name": ""}, "it.name has 1 to 5 characters, not 0"),
        ({"name": "abcdef"}, "it.name has 1 to 5 characters, not 6"),
        ({"name": "A"}, "it.name matches ^[a-z]+$"),
        ({"name": None}, "it.name is a text, not null"),
        ({"name": "a", "size": 11}, "it.size is between 0 and 10, not 11"),
        ({"name": "a", "size": 1.0}, "it.size is an integer, not 1.0"),
        ({"name": "a", "size": True}, "it.size is an integer, not true"),
        ({"name": "a", "is_red": 0}, "it.is_red is true or false, not 0"),
        ({"name": "a", "tags": "x"}, "it.tags is a list"),
        ({"name": "a", "tags": ["a", "b", "c"]}, "it.tags has 0 to 2 items, not 3"),
        ({"name": "a", "tags": ["a", "bcde"]}, "it.tags[1] has 0 to 3 characters"),
        ({"name": "a", "more": {"a": 2}}, "it.more.a is between 0 and 1"),
        ({"name": "a", "more": {"a": 0, "b": 0}}, "it.more has at most 1 fields"),
        ({"name": "a", "kind": "c"}, "it.kind is one of a, b"),
    ],
)
def test_violations_are_named(given: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Checker(SCHEMA, "it").check(given)
    assert message in str(caught.value)


def test_a_message_repeats_little_of_what_came() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Checker(SCHEMA, "it").check({"x" * 10_000: 1})
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("schema", "given", "value"),
    [
        (integer(0, 9), "7", 7),
        (integer(-2, 9), "-2", -2),
        (flag(), "true", True),
        (text(0, 9), "7", "7"),
        (array(text(1, 5), 0, 9), "a,b", ["a", "b"]),
    ],
)
def test_parameters_are_text(schema: dict[str, Any], given: str, value: Any) -> None:
    assert Checker(schema, "it").parse(given) == value


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        (integer(0, 9), "x"),
        (integer(0, 9), "10"),
        (integer(0, 9), "\N{ARABIC-INDIC DIGIT ONE}"),
        (integer(0, 9), "1" * 5_000),
        (flag(), "yes"),
    ],
)
def test_parameters_that_are_none(schema: dict[str, Any], given: str) -> None:
    with pytest.raises(InvalidArgumentError):
        Checker(schema, "it").parse(given)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"[NaN]", b"[Infinity]", b"[1" + b"0" * 5_000 + b"]", b'["\\udead"]', b"[" * 200_000]
)
def test_invalid_json_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidArgumentError):
        read_json(body)


@pytest.mark.parametrize("body", [b'{"a":1,"a":2}', b'{"b":[{"a":1,"c":2,"a":1}]}'])
def test_a_field_is_named_once(body: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="names the field a twice"):
        read_json(body)


def test_a_whole_pair_of_surrogates_is_a_character() -> None:
    assert read_json(b'"\\ud83d\\ude00"') == "\U0001f600"


def test_unsupported_schema_keywords_are_refused_at_the_start() -> None:
    with pytest.raises(AssertionError, match="multipleOf"):
        Checker(obj(size={"type": "integer", "multipleOf": 3}), "it")
