"""Transactions for threads: an AsyncTransaction does the work, on the client's own thread."""

from types import TracebackType
from typing import Self

from flotilla.client._blocking import BlockingShell, blocking
from flotilla.client.producer.receipt import Receipt
from flotilla.client.transaction.aio import AsyncTransaction


class Transaction(BlockingShell[AsyncTransaction]):
    """Made by `Client.transaction`. As a context manager it commits at the end, and aborts on an exception."""

    @property
    def transaction_id(self) -> str:
        """The id under which any process may stage more records, commit, or abort."""
        return self._inner.transaction_id

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """Topic and number of every partition that this process has added records to."""
        return self._inner.partitions

    @property
    def receipts(self) -> list[Receipt]:
        """The receipts of the records, in the order of adding. Raises TransactionEndedError before a commit.

        None, if the application had committed this version before: then nothing was stored now.
        """
        return self._inner.receipts

    produce = blocking(AsyncTransaction.produce)
    stage = blocking(AsyncTransaction.stage)
    ack = blocking(AsyncTransaction.ack)
    commit = blocking(AsyncTransaction.commit)
    abort = blocking(AsyncTransaction.abort)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))
