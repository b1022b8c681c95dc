"""Flotilla: a message queue in which every partition is its own Raft group.

The client's names and all errors are imported from here. They are loaded when they are first used, so that
importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from flotilla.types.version import __version__ as __version__

if TYPE_CHECKING:
    from flotilla.client.admin.dead_letter import DeadLetter as DeadLetter
    from flotilla.client.admin.dead_letters import AsyncDeadLetters as AsyncDeadLetters
    from flotilla.client.admin.dead_letters import DeadLetters as DeadLetters
    from flotilla.client.admin.dead_letters import Redriven as Redriven
    from flotilla.client.admin.group_info import GroupInfo as GroupInfo
    from flotilla.client.async_client import AsyncClient as AsyncClient
    from flotilla.client.client import Client as Client
    from flotilla.client.producer.aio import AsyncProducer as AsyncProducer
    from flotilla.client.producer.receipt import Receipt as Receipt
    from flotilla.client.producer.sync import Producer as Producer
    from flotilla.client.queue.aio import AsyncQueueConsumer as AsyncQueueConsumer
    from flotilla.client.queue.aio import AsyncQueueMessage as AsyncQueueMessage
    from flotilla.client.queue.outcome import Reject as Reject
    from flotilla.client.queue.outcome import Retry as Retry
    from flotilla.client.queue.sync import QueueConsumer as QueueConsumer
    from flotilla.client.queue.sync import QueueMessage as QueueMessage
    from flotilla.client.reader.aio import AsyncReader as AsyncReader
    from flotilla.client.reader.message import Message as Message
    from flotilla.client.reader.sync import Reader as Reader
    from flotilla.client.stream.aio import AsyncStreamConsumer as AsyncStreamConsumer
    from flotilla.client.stream.sync import StreamConsumer as StreamConsumer
    from flotilla.client.transaction.aio import AsyncTransaction as AsyncTransaction
    from flotilla.client.transaction.sync import Transaction as Transaction
    from flotilla.client.worker import Worker as Worker
    from flotilla.types.errors import AlreadyExistsError as AlreadyExistsError
    from flotilla.types.errors import BufferFullError as BufferFullError
    from flotilla.types.errors import ConfigurationChangeError as ConfigurationChangeError
    from flotilla.types.errors import ConnectionClosedError as ConnectionClosedError
    from flotilla.types.errors import CorruptionError as CorruptionError
    from flotilla.types.errors import DeadlineError as DeadlineError
    from flotilla.types.errors import DiskFullError as DiskFullError
    from flotilla.types.errors import FlotillaError as FlotillaError
    from flotilla.types.errors import GroupInUseError as GroupInUseError
    from flotilla.types.errors import GroupModeError as GroupModeError
    from flotilla.types.errors import InvalidArgumentError as InvalidArgumentError
    from flotilla.types.errors import LeaseExpiredError as LeaseExpiredError
    from flotilla.types.errors import NotFoundError as NotFoundError
    from flotilla.types.errors import NotLeaderError as NotLeaderError
    from flotilla.types.errors import OffsetOutOfRangeError as OffsetOutOfRangeError
    from flotilla.types.errors import OutcomeUnknownError as OutcomeUnknownError
    from flotilla.types.errors import OutOfWindowError as OutOfWindowError
    from flotilla.types.errors import OverloadedError as OverloadedError
    from flotilla.types.errors import ProducerFencedError as ProducerFencedError
    from flotilla.types.errors import ReplicaBehindError as ReplicaBehindError
    from flotilla.types.errors import SequenceGapError as SequenceGapError
    from flotilla.types.errors import StaleGenerationError as StaleGenerationError
    from flotilla.types.errors import StorageFailedError as StorageFailedError
    from flotilla.types.errors import TransactionEndedError as TransactionEndedError
    from flotilla.types.errors import UnavailableError as UnavailableError
    from flotilla.types.errors import UnknownError as UnknownError
    from flotilla.types.errors import UnsupportedError as UnsupportedError
    from flotilla.types.records import Record as Record

_HOMES = {
    "AsyncClient": "client.async_client",
    "AsyncDeadLetters": "client.admin.dead_letters",
    "AsyncProducer": "client.producer.aio",
    "AsyncQueueConsumer": "client.queue.aio",
    "AsyncQueueMessage": "client.queue.aio",
    "AsyncReader": "client.reader.aio",
    "AsyncStreamConsumer": "client.stream.aio",
    "AsyncTransaction": "client.transaction.aio",
    "Client": "client.client",
    "DeadLetter": "client.admin.dead_letter",
    "DeadLetters": "client.admin.dead_letters",
    "GroupInfo": "client.admin.group_info",
    "Message": "client.reader.message",
    "Producer": "client.producer.sync",
    "QueueConsumer": "client.queue.sync",
    "QueueMessage": "client.queue.sync",
    "Reader": "client.reader.sync",
    "Receipt": "client.producer.receipt",
    "Record": "types.records",
    "Redriven": "client.admin.dead_letters",
    "Reject": "client.queue.outcome",
    "Retry": "client.queue.outcome",
    "StreamConsumer": "client.stream.sync",
    "Transaction": "client.transaction.sync",
    "Worker": "client.worker",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name) or ("types.errors" if name.endswith("Error") else "")
    if not home:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{home}"), name)
    return found


def __dir__() -> list[str]:
    from flotilla.types.errors import ALL_ERRORS

    return sorted([*globals(), *_HOMES, "FlotillaError", *(error.__name__ for error in ALL_ERRORS)])
