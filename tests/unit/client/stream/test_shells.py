"""Stream groups through both clients, over TCP, against real brokers."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from flotilla import InvalidArgumentError, StaleGenerationError
from flotilla.client.reader.message import Message
from flotilla.types.errors import ConnectionClosedError, DeadlineError, GroupModeError, UnavailableError
from flotilla.types.operations import CommitOffset, Request
from flotilla.types.operations.stream import JoinGroup, LeaveGroup
from tests.unit.client.broker_servers import broker_servers
from tests.unit.client.shells import Shell, TcpServers
from tests.unit.client.stream_brokers import GROUP, TOPIC, StreamBrokers

#: Far more than anything takes.
PATIENCE_S = 20


@pytest.fixture
def servers() -> Iterator[TcpServers]:
    with broker_servers(StreamBrokers(2)) as opened:
        yield opened


@pytest.fixture
def cluster(servers: TcpServers) -> StreamBrokers:
    assert isinstance(servers.cluster, StreamBrokers)
    return servers.cluster


@pytest.fixture
def fill(cluster: StreamBrokers) -> Callable[..., None]:
    """Stores records in each partition, and wakes the polls that wait for them."""
    return cluster.fill


def consumer(client: Shell, **settings: Any) -> Shell:
    return client.stream(TOPIC, group=GROUP, **settings)


def read(count: int, *consumers: Shell) -> list[Message]:
    """Polls one after the other until so many messages have come."""
    found: list[Message] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} came"
        for each in consumers:
            found += each.poll(wait_ms=10)
    return found


def until(condition: Callable[[], bool], *consumers: Shell) -> list[Message]:
    """Polls until it holds; what came meanwhile."""
    found: list[Message] = []
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        for each in consumers:
            found += each.poll(wait_ms=10)
    return found


def test_a_member_alone_reads_everything_in_order_and_commits(connect, cluster: StreamBrokers, fill) -> None:
    fill()
    with consumer(connect()) as reading:
        messages = read(20, reading)
        for number in range(4):
            mine = [message for message in messages if message.partition == number]
            assert [message.offset for message in mine] == list(range(5))
        assert reading.assignment == [0, 1, 2, 3]
        assert reading.positions() == {0: 5, 1: 5, 2: 5, 3: 5}
        assert cluster.committed() == [None] * 4
        assert reading.commit() == {0: 5, 1: 5, 2: 5, 3: 5}
        assert reading.commit() == {}, "there was nothing to commit"
        assert reading.committed() == {0: 5, 1: 5, 2: 5, 3: 5}
    assert cluster.committed() == [5] * 4
    assert cluster.owners() == {}
    assert cluster.count(LeaveGroup) == 1


def test_the_next_member_goes_on_where_the_group_stands(connect, cluster: StreamBrokers, fill) -> None:
    fill()
    with consumer(connect()) as first:
        read(20, first)
        first.commit({0: 2, 1: 5})
    with consumer(connect()) as second:
        found = read(13, second)
    assert sorted((message.partition, message.offset) for message in found)[:3] == [(0, 2), (0, 3), (0, 4)]


def test_iterating_is_reading_one_by_one(connect, cluster: StreamBrokers, fill) -> None:
    fill(3)
    with consumer(connect()) as reading:
        messages = reading.take(12)
    assert len({(message.partition, message.offset) for message in messages}) == 12


def test_two_members_share_and_those_that_stay_are_not_interrupted(connect, cluster: StreamBrokers, fill) -> None:
    fill()
    calls: list[tuple[str, list[int], bool]] = []
    one = consumer(
        connect(),
        on_assign=lambda partitions: calls.append(("assign", sorted(partitions), False)),
        on_revoke=lambda partitions, lost: calls.append(("revoke", sorted(partitions), lost)),
    )
    with one:
        read(20, one)
        one.commit()
        with consumer(connect()) as two:
            until(lambda: len(two.assignment) == 2, one, two)
            assert len(one.assignment) == 2
            assert sorted(one.assignment + two.assignment) == [0, 1, 2, 3]
            revoked = [partitions for kind, partitions, lost in calls if kind == "revoke"]
            assert revoked == [two.assignment]
            fill(1)
            assert {message.offset for message in read(4, one, two)} == {5}
        until(lambda: len(one.assignment) == 4, one)
    assert calls[-1] == ("revoke", [0, 1, 2, 3], False)
    assert sorted(partition for kind, partitions, _ in calls if kind == "assign" for partition in partitions) == sorted(
        [0, 1, 2, 3, *revoked[0]]
    )


def test_callbacks_run_where_the_application_polls_and_may_use_the_consumer(
    connect, cluster: StreamBrokers, fill
) -> None:
    fill()
    here = threading.get_ident()
    threads: list[int] = []
    made: list[Any] = []

    def assigned(partitions: list[int]) -> Any:
        threads.append(threading.get_ident())
        # The blocking one seeks at once, the other one gives back what is to be waited for.
        return made[0].seek(3, partition=0) if 0 in partitions else None

    def revoked(partitions: list[int], lost: bool) -> Any:
        threads.append(threading.get_ident())
        return made[0].commit()

    with consumer(connect(), on_assign=assigned, on_revoke=revoked) as reading:
        made.append(reading._target)
        offsets = [message.offset for message in read(17, reading) if message.partition == 0]
        assert offsets == [3, 4]
    assert set(threads) == {here}
    assert len(threads) >= 2
    assert cluster.committed() == [5] * 4


def test_a_commit_without_waiting_raises_its_error_later(connect, cluster: StreamBrokers, fill) -> None:
    fill()
    reading = consumer(connect())
    read(20, reading)
    assert reading.commit(wait=False) == {0: 5, 1: 5, 2: 5, 3: 5}
    until(lambda: cluster.committed() == [5] * 4, reading)
    cluster.fault = lambda node, request: GroupModeError("no") if isinstance(request, CommitOffset) else None
    fill(1)
    read(4, reading)
    reading.commit(wait=False)
    with pytest.raises(GroupModeError):
        until(lambda: False, reading)
    cluster.fault = lambda node, request: None
    reading.close()


def test_automatic_commits_hold_back_what_is_in_hand(connect, cluster: StreamBrokers, fill) -> None:
    client = connect()
    reading = consumer(client, auto_commit_ms=1)
    until(lambda: len(reading.assignment) == 4, reading)
    fill(3)
    reading.take(5)
    # Until the next commit is due.
    time.sleep(0.005)
    [in_hand] = reading.take(1)
    deadline = time.monotonic() + PATIENCE_S
    while sum(offset or 0 for offset in cluster.committed()) < 5:
        assert time.monotonic() < deadline
        client.admin.metadata()
    assert sum(offset or 0 for offset in cluster.committed()) == 5
    assert cluster.committed()[in_hand.partition] == in_hand.offset
    before = reading.positions()
    reading.close()
    assert dict(enumerate(cluster.committed())) == before, "close says that all is done"


def test_a_failure_leaves_what_was_in_hand_to_the_next(connect, cluster: StreamBrokers, fill) -> None:
    messages: list[Message] = []

    def work() -> None:
        with consumer(connect(), auto_commit_ms=60_000) as reading:
            until(lambda: len(reading.assignment) == 4, reading)
            fill(1)
            messages.extend(reading.take(3))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    expected = [0, 0, 0, 0]
    for message in messages[:-1]:
        expected[message.partition] = 1
    assert cluster.committed() == expected


def test_a_partition_that_is_given_up_is_committed_first(connect, cluster: StreamBrokers, fill) -> None:
    fill()
    with consumer(connect(), auto_commit_ms=60_000) as one, consumer(connect(), auto_commit_ms=60_000) as two:
        seen = read(20, one)
        until(lambda: len(two.assignment) == 2, one, two)
        fill(1)
        seen += read(4, one, two)
        seen += [*one.poll(wait_ms=50), *two.poll(wait_ms=50)]
    assert len({(message.partition, message.offset) for message in seen}) == len(seen) == 24


def test_pause_resume_and_seek(connect, cluster: StreamBrokers, fill) -> None:
    fill()
    with consumer(connect()) as reading:
        read(20, reading)
        reading.pause([0, 1])
        fill(2)
        assert {message.partition for message in read(4, reading)} == {2, 3}
        assert reading.poll(wait_ms=50) == []
        assert reading.lag() == {0: 2, 1: 2, 2: 0, 3: 0}
        reading.resume()
        assert {message.partition for message in read(4, reading)} == {0, 1}
        reading.seek(4, partition=2)
        assert [message.offset for message in read(3, reading)] == [4, 5, 6]
        reading.pause()
        reading.seek("earliest")
        assert reading.poll(wait_ms=50) == []
        reading.resume([1])
        assert {message.partition for message in read(7, reading)} == {1}
        with pytest.raises(InvalidArgumentError):
            reading.seek(1, partition=9)


def test_a_removed_member_hears_of_it_and_joins_again(connect, cluster: StreamBrokers, fill) -> None:
    fill()
    calls: list[tuple[list[int], bool]] = []
    with consumer(connect(), on_revoke=lambda partitions, lost: calls.append((sorted(partitions), lost))) as reading:
        read(20, reading)
        reading.commit({0: 3})
        cluster.remove(reading.member)
        again = until(lambda: bool(calls), reading)
        assert calls == [([0, 1, 2, 3], True)]
        again += read(17 - len(again), reading)
        assert len({(message.partition, message.offset) for message in again}) == 17
    assert cluster.count(JoinGroup) == 2


@pytest.mark.parametrize("wait", [True, False])
def test_a_late_commit_is_refused_and_changes_nothing(connect, cluster: StreamBrokers, fill, wait: bool) -> None:
    fill()
    calls: list[tuple[list[int], bool]] = []
    with consumer(connect(), on_revoke=lambda partitions, lost: calls.append((partitions, lost))) as reading:
        read(20, reading)
        cluster.claim(1, epoch=100)
        if wait:
            with pytest.raises(StaleGenerationError):
                reading.commit()
        else:
            reading.commit(wait=False)
            with pytest.raises(StaleGenerationError):
                until(lambda: False, reading)
        until(lambda: bool(calls), reading)
        assert calls[0] == ([1], True)
        with pytest.raises(StaleGenerationError):
            reading.commit({1: 5})
        assert cluster.committed() == [5, None, 5, 5]


def test_an_automatic_commit_that_fails_is_tried_again(connect, cluster: StreamBrokers, fill) -> None:
    fill()
    timeout_ms = 100
    refused: list[float] = []

    def refuse(node: int, request: Request) -> UnavailableError | None:
        """Until the first commits have had their time."""
        now_ms = time.monotonic() * 1_000
        if isinstance(request, CommitOffset) and (not refused or now_ms < refused[0] + timeout_ms):
            refused.append(now_ms)
            return UnavailableError("not now")
        return None

    cluster.fault = refuse
    with consumer(connect(), auto_commit_ms=5, timeout_ms=timeout_ms) as reading:
        deadline = time.monotonic() + PATIENCE_S
        while cluster.committed() != [5] * 4:
            assert time.monotonic() < deadline
            # On a slow machine other calls are late, too.
            with suppress(DeadlineError):
                reading.poll(wait_ms=10)
    assert refused


def test_a_callback_that_fails_is_heard_of_and_the_partition_goes_all_the_same(connect, cluster: StreamBrokers) -> None:
    def fail(partitions: list[int], lost: bool) -> None:
        raise ZeroDivisionError

    one = consumer(connect(), on_revoke=fail)
    until(lambda: len(one.assignment) == 4, one)
    with consumer(connect()) as two:
        with pytest.raises(ZeroDivisionError):
            until(lambda: False, one, two)
        until(lambda: len(two.assignment) == 2, one, two)
        with pytest.raises(ZeroDivisionError):
            one.close()
        until(lambda: len(two.assignment) == 4, two)


@pytest.mark.parametrize(
    "settings",
    [
        {"strategy": "even"},
        {"session_ms": 1},
        {"auto_commit_ms": 0},
        {"poll_ms_max": 0},
        {"read_from": "mars"},
        {"start": -1},
        {"group": ""},
    ],
)
def test_settings_that_make_no_sense(connect, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        connect().stream(TOPIC, **{"group": GROUP, **settings})


def test_a_group_that_cannot_be_joined(connect, cluster: StreamBrokers) -> None:
    refused: list[Request] = []

    def refuse(node: int, request: Request) -> GroupModeError | None:
        if isinstance(request, JoinGroup) and not refused:
            refused.append(request)
            return GroupModeError("a queue")
        return None

    cluster.fault = refuse
    reading = consumer(connect())
    with pytest.raises(GroupModeError):
        until(lambda: False, reading)
    until(lambda: len(reading.assignment) == 4, reading)
    reading.close()


def test_the_end(connect, cluster: StreamBrokers) -> None:
    client = connect()
    reading = consumer(client)
    until(lambda: len(reading.assignment) == 4, reading)
    client.close()
    assert cluster.owners() == {}
    for use in (reading.poll, reading.commit, reading.committed, reading.lag, lambda: reading.seek(0)):
        with pytest.raises(ConnectionClosedError):
            use()
    reading.close()
    unused = consumer(connect())
    unused.close()
    assert cluster.count(JoinGroup) == 1
