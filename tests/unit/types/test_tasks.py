"""Ids of tasks: they say where a task is, and each task has one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.tasks import TaskId, parse_task_id, topic_of

queues = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,20}", fullmatch=True)


@given(queues, st.integers(0, 2**64 - 1), st.integers(0, 99_999), st.integers(0, 10**18 - 1))
def test_there_and_back(queue: str, topic_id: int, partition: int, offset: int) -> None:
    task = TaskId(queue, topic_id, partition, offset)
    assert parse_task_id(str(task)) == task
    assert task.topic == topic_of(queue)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "a.1.0",
        "a.1.0.x",
        "a.1.0.01",
        "a.01.0.1",
        "a.A.0.1",
        ".a.1.0.1",
        "a/b.1.0.1",
        "a.1.0.-1",
        "a.1.0.\N{ARABIC-INDIC DIGIT ONE}",
    ],
)
def test_bad_task_ids(text: str) -> None:
    assert parse_task_id(text) is None


@pytest.mark.parametrize("name", ["", ".", ".a", "a/b", "a b", "ä", "a" * 101])
def test_bad_queue_names(name: str) -> None:
    with pytest.raises(InvalidArgumentError):
        topic_of(name)
