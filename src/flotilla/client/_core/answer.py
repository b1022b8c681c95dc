"""Results that a coroutine awaits, set by a callback on the same loop."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Generic, TypeVar

from flotilla.types.errors import FlotillaError

Result = TypeVar("Result")
Key = TypeVar("Key")


class Answer(Generic[Result]):
    """A future whose setter does nothing when the awaiting coroutine was cancelled."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[Result | FlotillaError] = asyncio.get_running_loop().create_future()

    def set(self, result: Result | FlotillaError) -> None:
        if not self.future.done():
            self.future.set_result(result)

    async def wait(self) -> Result:
        """Raises the result if it is a FlotillaError."""
        result = await self.future
        if isinstance(result, FlotillaError):
            raise result
        return result


async def gather_answers(questions: Mapping[Key, Awaitable[Result]]) -> dict[Key, Result]:
    """Runs all of them at once, waits for all, and raises the first error."""
    answers = await asyncio.gather(*questions.values(), return_exceptions=True)
    found: dict[Key, Result] = {}
    for key, answer in zip(questions, answers, strict=True):
        if isinstance(answer, BaseException):
            raise answer
        found[key] = answer
    return found
