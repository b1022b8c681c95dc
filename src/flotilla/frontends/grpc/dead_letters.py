"""Dead letters over gRPC: list, redrive, purge. The client library does the work."""

from flotilla.client.admin.dead_letter import DeadLetter, DeadLetterFilter
from flotilla.client.admin.dead_letters import AsyncDeadLetters, Redriven
from flotilla.client.async_client import AsyncClient
from flotilla.codec.grpc.values import DeadLettersAsked
from flotilla.gateway.gateway import Gateway


class DeadLetterCalls:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def list_some(self, asked: DeadLettersAsked, timeout_ms: int) -> list[DeadLetter]:
        async with self._client(timeout_ms) as client:
            return await _letters(client, asked).list(asked.limit, **_meant(asked))

    async def redrive(self, asked: DeadLettersAsked, timeout_ms: int) -> Redriven:
        async with self._client(timeout_ms) as client:
            return await _letters(client, asked).redrive(
                limit=asked.limit, dry_run=asked.is_dry_run, force=asked.is_forced, **_meant(asked)
            )

    async def purge(self, asked: DeadLettersAsked, timeout_ms: int) -> Redriven:
        async with self._client(timeout_ms) as client:
            return await _letters(client, asked).purge(limit=asked.limit, dry_run=asked.is_dry_run, **_meant(asked))

    def _client(self, timeout_ms: int) -> AsyncClient:
        """A client for one call: these calls are rare, and take no place on the gateway's connections."""
        return self._gateway.client(timeout_ms=timeout_ms)


def _letters(client: AsyncClient, asked: DeadLettersAsked) -> AsyncDeadLetters:
    return client.dead_letters(asked.topic, asked.group)


def _meant(asked: DeadLettersAsked) -> DeadLetterFilter:
    wanted: DeadLetterFilter = {}
    if asked.reason:
        wanted["reason"] = asked.reason
    if asked.since_ms:
        wanted["since_ms"] = asked.since_ms
    if asked.until_ms:
        wanted["until_ms"] = asked.until_ms
    return wanted
