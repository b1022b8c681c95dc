"""Transactions for threads: an AsyncTransaction does the work, on the client's own thread."""

from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Self, Unpack

from flotilla.client.producer.receipt import Receipt
from flotilla.client.producer.record_fields import RecordFields
from flotilla.client.queue.message import Leased
from flotilla.client.transaction.aio import AsyncTransaction
from flotilla.types.records import Record


class Transaction:
    """Made by `Client.transaction`. As a context manager it commits at the end, and aborts on an exception."""

    def __init__(self, inner: AsyncTransaction, run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._inner = inner
        self._run = run

    @property
    def transaction_id(self) -> str:
        """Under which any process may stage more, commit, or abort."""
        return self._inner.transaction_id

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """Topic and number of every partition for which this process has given records."""
        return self._inner.partitions

    @property
    def receipts(self) -> list[Receipt]:
        """Where the records are, in the order in which they were given. Raises TransactionEndedError before a commit.

        None, if the application had committed this version before: then nothing was stored now.
        """
        return self._inner.receipts

    def produce(
        self,
        topic: str,
        payload: bytes,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        **fields: Unpack[RecordFields],
    ) -> None:
        """Adds one record. It may stay here until the commit; nobody sees it before."""
        self._run(self._inner.produce(topic, payload, key=key, partition=partition, **fields))

    def stage(
        self,
        topic: str,
        payloads: Iterable[bytes | Record],
        *,
        key: bytes | None = None,
        partition: int | None = None,
        **fields: Unpack[RecordFields],
    ) -> None:
        """Adds many records, and returns when the cluster holds them: now any process may commit."""
        self._run(self._inner.stage(topic, payloads, key=key, partition=partition, **fields))

    def ack(self, *messages: Leased[Any]) -> None:
        """Acknowledges messages of queue groups with this transaction: done when it commits, given back if not.

        Raises LeaseExpiredError for one that is not held any more, as the commit does when that shows later. Until
        they are staged, at the commit or by `stage`, their leases are renewed as before; after that nobody gets them
        before the decision.
        """
        self._run(self._inner.ack(*messages))

    def commit(self, *, application_id: str = "", version: int = 0) -> None:
        """Has everything be seen, in all partitions, and returns when it is. After that there are receipts.

        With an application's id and a version: once, however often that version is committed.
        """
        self._run(self._inner.commit(application_id=application_id, version=version))

    def abort(self) -> None:
        """Has nothing of it ever be seen. Raises TransactionEndedError when it was committed."""
        self._run(self._inner.abort())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))
