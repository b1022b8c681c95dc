"""Blocking twins of coroutine methods.

A method of a blocking class is written `commit = blocking(AsyncThing.commit)`: the coroutine runs on the client's
loop, and the caller's thread waits for it. Types, signature and documentation are those of the coroutine, for type
checkers, `help()` and `inspect.signature` alike. Only methods that must be quick are written by hand.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
Result = TypeVar("Result")
Inner = TypeVar("Inner")
Method = TypeVar("Method", bound=Callable[..., Any])


class Run(Protocol):
    """Runs a coroutine on the client's loop, and waits for its result."""

    def __call__(self, work: Coroutine[Any, Any, Result], /) -> Result: ...


def blocking(
    coroutine: Callable[Concatenate[Any, P], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, P], Result]:
    """The blocking twin of a coroutine method; its class has `_run`, and in `_inner` the coroutine's object."""

    @wraps(coroutine)
    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        run: Run = self._run
        return run(coroutine(self._inner, *args, **kwargs))

    return method


def documented_by(original: Callable[..., Any]) -> Callable[[Method], Method]:
    """A method written by hand, with the docstring of its twin."""

    def decorate(method: Method) -> Method:
        method.__doc__ = original.__doc__
        return method

    return decorate


class BlockingShell(Generic[Inner]):
    """A blocking class whose methods are all twins of its inner one's."""

    def __init__(self, inner: Inner, run: Run) -> None:
        self._inner = inner
        self._run = run
