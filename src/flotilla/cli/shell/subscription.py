"""What `flotilla shell` has subscribed to: a manual reader with positions, or a member of a queue or stream group."""

from typing import TYPE_CHECKING, Protocol

from flotilla.types.errors import InvalidArgumentError

if TYPE_CHECKING:
    from flotilla.client.queue.sync import QueueConsumer, QueueMessage
    from flotilla.client.reader.message import Message
    from flotilla.client.reader.sync import Reader
    from flotilla.client.stream.sync import StreamConsumer

#: How long one look for news may take; Ctrl-C is noticed in between at the latest.
POLL_WAIT_MS = 1_000


class Reading(Protocol):
    """One subscription, whatever its mode. Everything raises FlotillaError."""

    def poll(self, count: int) -> "list[Message] | list[QueueMessage]": ...

    def done_with(self, messages: "list[Message] | list[QueueMessage]") -> None:
        """They were streamed past: nobody will settle them by hand."""

    def seek(self, offset: object, timestamp_ms: int | None, partition: int | None) -> str: ...

    def commit(self) -> str: ...

    def nack(self, reason: str) -> str: ...

    def describe(self) -> str: ...

    def close(self) -> None: ...


class ManualReading:
    """Offsets, and nothing else."""

    def __init__(self, consumer: "Reader", group: str) -> None:
        self._consumer = consumer
        self._group = group

    def poll(self, count: int) -> "list[Message]":
        return self._consumer.poll(count, wait_ms=POLL_WAIT_MS)

    def done_with(self, messages: "list[Message] | list[QueueMessage]") -> None:
        """The position has moved already."""

    def seek(self, offset: object, timestamp_ms: int | None, partition: int | None) -> str:
        self._consumer.seek(offset, timestamp_ms=timestamp_ms, partition=partition)  # type: ignore[arg-type]
        return f"at {_places(self._consumer.positions())}"

    def commit(self) -> str:
        if not self._group:
            raise InvalidArgumentError("committing takes a group: subscribe TOPIC group=NAME")
        return f"group {self._group} is at {_places(self._consumer.commit())}"

    def nack(self, reason: str) -> str:
        raise InvalidArgumentError("a manual reader holds nothing that could fail; `mode queue` does")

    def describe(self) -> str:
        group = f" as group {self._group}" if self._group else ""
        return f"reading {self._consumer.topic}{group} at {_places(self._consumer.positions())}"

    def close(self) -> None:
        self._consumer.close()


class QueueReading:
    """Messages under a lease, until they are committed or fail; leases renew while the shell is open."""

    def __init__(self, consumer: "QueueConsumer", topic: str, group: str) -> None:
        self._consumer = consumer
        self._topic = topic
        self._group = group
        self._held: list[QueueMessage] = []

    def poll(self, count: int) -> "list[QueueMessage]":
        messages = self._consumer.poll(count, wait_ms=POLL_WAIT_MS)
        self._held += messages
        return messages

    def done_with(self, messages: "list[Message] | list[QueueMessage]") -> None:
        self.commit()

    def seek(self, offset: object, timestamp_ms: int | None, partition: int | None) -> str:
        raise InvalidArgumentError("a queue group has no position; `flotilla group reset` moves all of it")

    def commit(self) -> str:
        held, self._held = self._held, []
        self._consumer.ack(held)
        return f"{len(held)} done"

    def nack(self, reason: str) -> str:
        held, self._held = self._held, []
        self._consumer.nack(held, reason=reason)
        return f"{len(held)} failed; they come again"

    def describe(self) -> str:
        return f"reading {self._topic} in queue group {self._group}, holding {len(self._held)}"

    def close(self) -> None:
        self._consumer.close()


class StreamReading:
    """Partitions that the group gives to this shell, and positions in them."""

    def __init__(self, consumer: "StreamConsumer") -> None:
        self._consumer = consumer

    def poll(self, count: int) -> "list[Message]":
        return self._consumer.poll(count, wait_ms=POLL_WAIT_MS)

    def done_with(self, messages: "list[Message] | list[QueueMessage]") -> None:
        self._consumer.commit(wait=False)

    def seek(self, offset: object, timestamp_ms: int | None, partition: int | None) -> str:
        self._consumer.seek(offset, timestamp_ms=timestamp_ms, partition=partition)  # type: ignore[arg-type]
        return f"at {_places(self._consumer.positions())}"

    def commit(self) -> str:
        self._consumer.commit()
        return f"group {self._consumer.group} is at {_places(self._consumer.positions())}"

    def nack(self, reason: str) -> str:
        raise InvalidArgumentError("a stream group holds nothing that could fail; `mode queue` does")

    def describe(self) -> str:
        reading = f"reading {self._consumer.topic} in stream group {self._consumer.group}"
        if not self._consumer.assignment:
            return f"{reading}, with no partitions yet: `poll` joins"
        return f"{reading} at {_places(self._consumer.positions())}"

    def close(self) -> None:
        self._consumer.close()


def _places(positions: dict[int, int]) -> str:
    return " ".join(f"{partition}:{offset}" for partition, offset in positions.items())
