"""Dataclasses with slots that cost little to define, for the classes that every client loads.

`dataclass` compiles three methods for every class, and six for a frozen one: 80 ms of every import of the client and of
every command. Here all classes share them, because these values are compared in tests and printed in logs only, except
`__init__`, which is compiled when the class is first used.
"""

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import Any, TypeAlias, TypeVar, dataclass_transform

Kind = TypeVar("Kind", bound=type)
_Methods: TypeAlias = dict[str, Callable[..., Any] | None]


@dataclass_transform(field_specifiers=(field,))
def slotted(kind: Kind) -> Kind:
    """`@dataclass(slots=True)` with the same meaning."""
    return _make(kind, _compile_init, {"__eq__": _is_equal, "__repr__": _representation, "__hash__": None})


@dataclass_transform(field_specifiers=(field,), frozen_default=True)
def frozen(kind: Kind) -> Kind:
    """`@dataclass(frozen=True, slots=True)` with the same meaning."""
    shared: _Methods = {"__eq__": _is_equal, "__repr__": _representation, "__hash__": _hash}
    state: _Methods = {"__getstate__": _values, "__setstate__": _set_values}
    return _make(kind, _compile_frozen_init, {**shared, **state, "__setattr__": _refuse, "__delattr__": _refuse})


def _make(kind: Kind, compile_init: Callable[[Any], Any], shared: _Methods) -> Kind:
    for name, method in shared.items():
        if name not in vars(kind):
            setattr(kind, name, method)
    if kind.__doc__ is None:
        # `dataclass` would write the signature there: a tenth of the time of an import of the client.
        kind.__doc__ = f"{kind.__name__}(...)"
    made: Any = dataclass(slots=True, init=False, eq=False, repr=False)(kind)

    def first_init(self: Any, *arguments: Any, **named: Any) -> None:
        made.__init__ = compile_init(made)
        made.__init__(self, *arguments, **named)

    made.__init__ = first_init
    return made  # type: ignore[no-any-return]


def _compile_init(kind: Any, store: str = "self.{name} = {value}") -> Callable[..., None]:
    """The `__init__` that `dataclass` would make: it runs for every request and reply."""
    parameters, lines = ["self"], []
    names: dict[str, Any] = {"_missing": MISSING, "_set": object.__setattr__}
    for each in fields(kind):
        parameter = value = each.name
        if each.default is not MISSING:
            names[f"_{each.name}"] = each.default
            parameter = f"{each.name}=_{each.name}"
        elif each.default_factory is not MISSING:
            names[f"_{each.name}"] = each.default_factory
            parameter = f"{each.name}=_missing"
            value = f"_{each.name}() if {each.name} is _missing else {each.name}"
        parameters.append(parameter)
        lines.append(store.format(name=each.name, value=value))
    if hasattr(kind, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines or ["pass"]), names)
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{kind.__qualname__}.__init__"
    return init


def _compile_frozen_init(kind: Any) -> Callable[..., None]:
    return _compile_init(kind, "_set(self, {name!r}, {value})")


def _values(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__match_args__]


def _set_values(self: Any, values: list[Any]) -> None:
    for name, value in zip(self.__match_args__, values, strict=True):
        object.__setattr__(self, name, value)


def _is_equal(self: Any, other: Any) -> Any:
    return _values(self) == _values(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash(tuple(_values(self)))


def _representation(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__match_args__)})"


def _refuse(self: Any, name: str, value: object = None) -> None:
    raise FrozenInstanceError(f"cannot change field {name!r}")
