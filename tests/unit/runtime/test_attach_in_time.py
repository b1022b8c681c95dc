"""Files that the disk does not return when a node starts cost their own group, and no other."""

import threading
from collections.abc import Callable

import pytest

from flotilla.runtime.start_watch import attach_in_time
from flotilla.types.errors import StorageFailedError
from flotilla.types.limits import LOAD_THREADS_MAX

METADATA = 1


class FakeAttachment:
    is_background = False

    def __init__(self, group: int, work: Callable[[], None] = lambda: None) -> None:
        self.group = group
        self.path = f"groups/{group}/a.snap"
        self.run = work
        self.is_finished = False

    def finish(self) -> None:
        self.is_finished = True


def attach(attachments: list[FakeAttachment], progress: Callable[[], int] = lambda: 0) -> list[int]:
    """Returns the groups whose files are open."""
    attach_in_time(attachments, progress=progress, is_needed=lambda group: group == METADATA, patience_s=0.05)
    return [attachment.group for attachment in attachments if attachment.is_finished]


def test_all_files_come() -> None:
    assert attach([FakeAttachment(group) for group in range(1, 31)]) == list(range(1, 31))
    assert attach([]) == []


def test_a_group_whose_file_hangs_is_left_out() -> None:
    answer = threading.Event()
    hanging = FakeAttachment(3, lambda: answer.wait() and None)
    groups = [FakeAttachment(1), FakeAttachment(2), hanging, *(FakeAttachment(group) for group in range(4, 31))]
    assert attach(groups) == [1, 2, *range(4, 31)]
    answer.set()
    assert not hanging.is_finished, "it came too late, and is read again when its replica begins"


def test_a_disk_that_returns_nothing_more_leaves_the_rest_out() -> None:
    answer = threading.Event()
    hanging = [FakeAttachment(group, lambda: answer.wait() and None) for group in range(2, 2 + LOAD_THREADS_MAX)]
    assert attach([FakeAttachment(METADATA), *hanging, *(FakeAttachment(group) for group in range(50, 60))]) == [1]
    answer.set()


def test_a_slow_disk_gets_its_time() -> None:
    answer = threading.Event()
    asked = 0

    def progress() -> int:
        nonlocal asked
        asked += 1
        if asked == 6:
            answer.set()
        return asked

    assert attach([FakeAttachment(2, lambda: answer.wait() and None)], progress) == [2]


def test_the_node_waits_for_a_group_that_it_needs() -> None:
    answer = threading.Event()
    asked = 0

    def progress() -> int:
        nonlocal asked
        asked += 1
        if asked == 6:
            answer.set()
        return 0

    late = FakeAttachment(2, lambda: answer.wait() and None)
    assert attach([FakeAttachment(METADATA, lambda: answer.wait() and None), late], progress) in ([1], [1, 2])


def test_an_error_costs_its_group_and_where_that_is_needed_the_start() -> None:
    def fail() -> None:
        raise StorageFailedError("too many open files")

    assert attach([FakeAttachment(1), FakeAttachment(2, fail), FakeAttachment(3)]) == [1, 3]
    with pytest.raises(StorageFailedError):
        attach([FakeAttachment(METADATA, fail), FakeAttachment(2)])
