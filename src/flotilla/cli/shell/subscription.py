"""The subscriptions of `flotilla shell`: a manual reader, or a member of a queue or stream group."""

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from flotilla.types.errors import InvalidArgumentError

if TYPE_CHECKING:
    from flotilla.client.queue.sync import QueueConsumer, QueueMessage
    from flotilla.client.reader.message import Message
    from flotilla.client.reader.sync import Reader
    from flotilla.client.stream.sync import StreamConsumer

#: The longest wait of one poll, and so the delay of Ctrl-C.
POLL_WAIT_MS = 1_000

C = TypeVar("C", bound="Reader | StreamConsumer")


class Subscription(Protocol):
    """A subscription in any mode. Every method may raise FlotillaError."""

    def poll(self, count: int) -> "list[Message] | list[QueueMessage]": ...

    def done_with(self, messages: "list[Message] | list[QueueMessage]") -> None:
        """Settles messages that `stream` has printed."""

    def seek(self, offset: object, timestamp_ms: int | None, partition: int | None) -> str: ...

    def commit(self) -> str: ...

    def nack(self, reason: str) -> str: ...

    def describe(self) -> str: ...

    def close(self) -> None: ...


class _Positioned(Generic[C]):
    """A subscription with positions and without leases."""

    def __init__(self, consumer: C) -> None:
        self._consumer = consumer

    def poll(self, count: int) -> "list[Message]":
        return self._consumer.poll(count, wait_ms=POLL_WAIT_MS)

    def seek(self, offset: object, timestamp_ms: int | None, partition: int | None) -> str:
        self._consumer.seek(offset, timestamp_ms=timestamp_ms, partition=partition)  # type: ignore[arg-type]
        return f"at {self._places()}"

    def nack(self, reason: str) -> str:
        raise InvalidArgumentError("only a queue group has leases to fail; `mode queue` reads as one")

    def close(self) -> None:
        self._consumer.close()

    def _places(self) -> str:
        return " ".join(f"{partition}:{offset}" for partition, offset in self._consumer.positions().items())


class ManualSubscription(_Positioned["Reader"]):
    """A reader, with a group only for commits."""

    def __init__(self, consumer: "Reader", group: str) -> None:
        super().__init__(consumer)
        self._group = group

    def done_with(self, messages: "list[Message] | list[QueueMessage]") -> None:
        """Nothing to do: the position has moved."""

    def commit(self) -> str:
        if not self._group:
            raise InvalidArgumentError("a commit needs a group: subscribe TOPIC group=NAME")
        self._consumer.commit()
        return f"group {self._group} is at {self._places()}"

    def describe(self) -> str:
        group = f" as group {self._group}" if self._group else ""
        return f"reading {self._consumer.topic}{group} at {self._places()}"


class StreamSubscription(_Positioned["StreamConsumer"]):
    """Reads the partitions that the group assigns to this shell."""

    def done_with(self, messages: "list[Message] | list[QueueMessage]") -> None:
        self._consumer.commit(wait=False)

    def commit(self) -> str:
        self._consumer.commit()
        return f"group {self._consumer.group} is at {self._places()}"

    def describe(self) -> str:
        reading = f"reading {self._consumer.topic} in stream group {self._consumer.group}"
        if not self._consumer.assignment:
            return f"{reading}, with no partitions yet: `poll` joins"
        return f"{reading} at {self._places()}"


class QueueSubscription:
    """Leases messages until `commit` or `nack`; leases are renewed while the shell is open."""

    def __init__(self, consumer: "QueueConsumer", topic: str, group: str) -> None:
        self._consumer = consumer
        self._topic = topic
        self._group = group
        self._leased: list[QueueMessage] = []

    def poll(self, count: int) -> "list[QueueMessage]":
        messages = self._consumer.poll(count, wait_ms=POLL_WAIT_MS)
        self._leased += messages
        return messages

    def done_with(self, messages: "list[Message] | list[QueueMessage]") -> None:
        self.commit()

    def seek(self, offset: object, timestamp_ms: int | None, partition: int | None) -> str:
        raise InvalidArgumentError("a queue group has no position; `flotilla group reset` moves all of it")

    def commit(self) -> str:
        leased, self._leased = self._leased, []
        self._consumer.ack(leased)
        return f"{len(leased)} acknowledged"

    def nack(self, reason: str) -> str:
        leased, self._leased = self._leased, []
        self._consumer.nack(leased, reason=reason)
        return f"{len(leased)} failed; they are redelivered"

    def describe(self) -> str:
        return f"reading {self._topic} in queue group {self._group}, {len(self._leased)} leased"

    def close(self) -> None:
        self._consumer.close()
