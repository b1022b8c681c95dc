"""Dead letters over gRPC: list, redrive, purge. The client library does the work."""

from contextlib import AbstractAsyncContextManager

from flotilla.client.admin.dead_letter import DeadLetter, DeadLetterFilter
from flotilla.client.admin.dead_letters import AsyncDeadLetters, Redriven
from flotilla.codec.grpc.values import DeadLettersAsked
from flotilla.gateway.gateway import Gateway


class DeadLetterCalls:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def list_some(self, asked: DeadLettersAsked, timeout_ms: int) -> list[DeadLetter]:
        async with self._letters(asked, timeout_ms) as letters:
            return await letters.list(asked.limit, **_meant(asked))

    async def redrive(self, asked: DeadLettersAsked, timeout_ms: int) -> Redriven:
        async with self._letters(asked, timeout_ms, redrives=True) as letters:
            return await letters.redrive(
                limit=asked.limit, dry_run=asked.is_dry_run, force=asked.is_forced, **_meant(asked)
            )

    async def purge(self, asked: DeadLettersAsked, timeout_ms: int) -> Redriven:
        async with self._letters(asked, timeout_ms) as letters:
            return await letters.purge(limit=asked.limit, dry_run=asked.is_dry_run, **_meant(asked))

    def _letters(
        self, asked: DeadLettersAsked, timeout_ms: int, *, redrives: bool = False
    ) -> AbstractAsyncContextManager[AsyncDeadLetters]:
        return self._gateway.dead_letters(asked.topic, asked.group, redrives=redrives, timeout_ms=timeout_ms)


def _meant(asked: DeadLettersAsked) -> DeadLetterFilter:
    wanted: DeadLetterFilter = {}
    if asked.reason:
        wanted["reason"] = asked.reason
    if asked.since_ms:
        wanted["since_ms"] = asked.since_ms
    if asked.until_ms:
        wanted["until_ms"] = asked.until_ms
    return wanted
