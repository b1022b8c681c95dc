"""`with worker:` runs it in a thread of its own, and drains it at the end of the block."""

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class BackgroundRun(ABC):
    """The base of workers."""

    #: Of the thread.
    _run_name: str
    _thread: threading.Thread | None = None
    _failure: BaseException | None = None

    @abstractmethod
    def run(self) -> None:
        """Blocks until `stop`."""

    @abstractmethod
    def stop(self) -> None:
        """Begins the drain. Any thread may call it."""

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run_quietly, name=self._run_name)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._thread is not None
        self.stop()
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    def _run_quietly(self) -> None:
        try:
            self.run()
        except BaseException as error:
            self._failure = error
