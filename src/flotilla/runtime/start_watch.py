"""A start on a disk that does not return some files: it names them, and goes on without those that one group needs.

A start reads the journal, and the segments, indexes and snapshots of all groups, before the node takes part in
anything. Without the journal or the metadata it waits, as if the node were down; the other nodes serve. A group whose
own file does not come is left out. The file is read again when its replica begins (`Driver.preload`), where it holds
up nothing else.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Protocol, Self

from flotilla.machine import here
from flotilla.replica.ports import Load
from flotilla.runtime.observability.logs import get_logger
from flotilla.types.ids import GroupId
from flotilla.types.limits import LOAD_MS_MAX, LOAD_THREADS_MAX

log = get_logger("runtime")


class StartWatch:
    """While it is entered, every file that takes long is named in the log, once."""

    def __init__(self, opened: Callable[[], str], patience_s: float = LOAD_MS_MAX / 1000) -> None:
        """`opened` returns the file that was opened last."""
        self._opened = opened
        self._patience_s = patience_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="start-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        before = named = ""
        while not self._is_over.wait(self._patience_s):
            path = self._opened()
            if path and path == before and path != named:
                log.warning("the start waits for the disk to return a file", path=path)
                named = path
            before = path


class Attachment(Load, Protocol):
    def finish(self) -> None:
        """The files are open. On the thread that owns the store."""


def attach_in_time(
    attachments: Sequence[Attachment],
    *,
    progress: Callable[[], int],
    is_needed: Callable[[GroupId], bool],
    patience_s: float = LOAD_MS_MAX / 1000,
) -> None:
    """Gives up on what is left when nothing has come for `patience_s`, but never on a group that is needed.

    `progress` is a number that rises while the disk returns files.
    """
    left = {attachment.group: attachment for attachment in attachments}
    waiting = deque(attachments)
    results: SimpleQueue[tuple[Attachment, Exception | None]] = SimpleQueue()
    lanes = [here().lane(f"open-{number}") for number in range(1, min(len(left), LOAD_THREADS_MAX) + 1)]
    for lane in lanes:
        lane.put(partial(_work, waiting, results))
    while left:
        before = progress()
        try:
            attachment, error = results.get(timeout=patience_s)
        except Empty:
            if progress() == before and not any(map(is_needed, left)):
                break
            continue
        if error is None:
            attachment.finish()
        elif is_needed(attachment.group):
            raise error
        else:
            # The next attempt, when the replica begins, ends that group alone.
            log.error("a file cannot be opened", group=attachment.group, path=attachment.path, error=str(error))
        del left[attachment.group]
    waiting.clear()
    for lane in lanes:
        lane.close(0)
    for attachment in left.values():
        what = "the disk does not return a file, and the node starts without its group"
        log.warning(what, group=attachment.group, path=attachment.path)


def _work(waiting: deque[Attachment], results: SimpleQueue[tuple[Attachment, Exception | None]]) -> None:
    """On a thread. One that hangs ends with the process."""
    while waiting:
        try:
            attachment = waiting.popleft()
        except IndexError:
            # Another thread took the last one.
            return
        try:
            attachment.run()
        except Exception as failure:
            results.put((attachment, failure))
        else:
            results.put((attachment, None))
