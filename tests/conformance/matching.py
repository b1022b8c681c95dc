"""The comparison of answers with expectations, and the variables of scenarios."""

import re
from typing import Any

from tests.conformance.values import is_bytes, to_bytes

_VARIABLE = re.compile(r"\$(\w+)")


class Mismatch(Exception):  # noqa: N818 - it is a finding, and becomes an AssertionError with the step around it.
    """The answer is not what the scenario expects."""


def substitute(value: Any, variables: dict[str, Any]) -> Any:
    """The same with every variable replaced; one that stands alone keeps its type."""
    if isinstance(value, dict):
        return {key: substitute(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [substitute(item, variables) for item in value]
    if not isinstance(value, str):
        return value
    alone = _VARIABLE.fullmatch(value)
    if alone is not None:
        return variables[alone[1]]
    return _VARIABLE.sub(lambda found: str(variables[found[1]]), value)


def match(expected: Any, found: Any, place: str = "reply") -> None:
    """Raises Mismatch."""
    if isinstance(found, bytes) and (isinstance(expected, str) or is_bytes(expected)):
        expected = to_bytes(expected)
    if isinstance(expected, dict):
        _match_object(expected, found, place)
    elif isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            raise Mismatch(f"{place} is {found!r}, not {expected!r}")
        for number, (item, other) in enumerate(zip(expected, found, strict=True)):
            match(item, other, f"{place}[{number}]")
    elif expected != found or type(expected) is not type(found):
        raise Mismatch(f"{place} is {found!r}, not {expected!r}")


def _match_object(expected: dict[str, Any], found: Any, place: str) -> None:
    if expected.keys() == {"above"}:
        if not found > expected["above"]:
            raise Mismatch(f"{place} is {found!r}, not above {expected['above']!r}")
    elif expected.keys() == {"keys"}:
        if sorted(found) != expected["keys"]:
            raise Mismatch(f"{place} has {sorted(found)}, not {expected['keys']}")
    else:
        for key, item in expected.items():
            if key not in found:
                raise Mismatch(f"{place} has no {key}")
            match(item, found[key], f"{place}.{key}")
