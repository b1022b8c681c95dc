"""Compressed batches: the loop opens little in one turn, others are opened aside, and partitions keep their order."""

from collections.abc import Callable
from random import Random

import pytest

from flotilla.broker.batch_opener import BatchOpener
from flotilla.codec.batch.compression import LZ4, ZSTD
from flotilla.codec.batch.records import encode_batch
from flotilla.raft.roles import FOLLOWER
from flotilla.types.limits import MIB, OPENING_BYTES_MAX, OPENING_TURN_BYTES_MAX
from flotilla.types.operations import CreateTopic, Fetch, Fetched, Produce, Produced
from flotilla.types.operations.transactions import Stage
from flotilla.types.records import Record
from tests.unit.broker.fleet import Node, single_node

TOPIC = "packed"


def packed(size_bytes: int, sequence: int = 0, compression: int = ZSTD, producer: int = 7) -> bytes:
    noise = Random(sequence).randbytes(max(size_bytes // 150, 64))
    record = Record(noise + bytes(size_bytes - len(noise)), timestamp_ms=1)
    return encode_batch([record], compression=compression, producer_id=producer, sequence=sequence)


@pytest.fixture
def node() -> Node:
    node = single_node()
    node.call(CreateTopic(TOPIC, partitions=2, settings={"payload_bytes_max": "16MiB"}))
    node.fleet.leader(TOPIC, 0)
    node.fleet.leader(TOPIC, 1)
    node.asides = []  # type: ignore[attr-defined]
    run = node.aside

    def aside(work: object, done: object) -> None:
        node.asides.append(work)  # type: ignore[attr-defined]
        run(work, done)  # type: ignore[arg-type]

    for host in node.membership.hosts.values():
        host._arrivals._aside = aside
    return node


def produced(node: Node, *batches: bytes, partition: int = 0) -> list[str | int]:
    answers = [node.ask(Produce(TOPIC, partition, batch)) for batch in batches]
    node.fleet.settle()
    results = [answer.result for answer in answers]
    return [each.base_offset if isinstance(each, Produced) else each.code for each in results]  # type: ignore[union-attr]


@pytest.mark.parametrize("compression", [ZSTD, LZ4])
def test_small_ones_are_opened_at_once_within_a_turn(node: Node, compression: int) -> None:
    size_bytes = OPENING_TURN_BYTES_MAX // 4
    batches = [packed(size_bytes, sequence, compression) for sequence in range(6)]
    assert produced(node, *batches) == list(range(6))
    # A batch has a few bytes more than its payload: three fit into the turn.
    assert len(node.asides) == 3  # type: ignore[attr-defined]
    assert produced(node, packed(size_bytes, 6, compression)) == [6]
    assert len(node.asides) == 3, "another turn"  # type: ignore[attr-defined]


def test_what_comes_after_a_large_one_stays_behind_it(node: Node) -> None:
    plain = [encode_batch([Record(b"x", timestamp_ms=1)], producer_id=7, sequence=n) for n in (1, 3)]
    assert produced(node, packed(3 * MIB), plain[0], packed(2 * MIB, 2), plain[1]) == [0, 1, 2, 3]
    fetched = node.call(Fetch(TOPIC, 0, 0, max_bytes=1 << 20)).result
    assert isinstance(fetched, Fetched)
    assert fetched.next_offset == 4
    assert node.membership._hosting._opener.waiting_bytes == 0


def test_other_partitions_do_not_wait(node: Node) -> None:
    waiting = node.ask(Produce(TOPIC, 0, packed(3 * MIB)))
    other = node.ask(Produce(TOPIC, 1, encode_batch([Record(b"x", timestamp_ms=1)])))
    node.fleet.settle()
    assert (waiting.code, other.code) == ("Produced", "Produced")


def test_what_waits_is_bounded(node: Node) -> None:
    large = 15 * MIB
    answers = produced(node, *[packed(large, sequence) for sequence in range(6)])
    taken = OPENING_BYTES_MAX // large
    assert answers[:taken] == list(range(taken))
    assert set(answers[taken:]) == {"OVERLOADED"}
    assert produced(node, packed(large, taken)) == [taken], "there is room again"


def test_a_batch_that_cannot_be_opened_is_refused_and_holds_up_nobody(node: Node) -> None:
    bad = bytearray(packed(3 * MIB))
    bad[-20:] = b"x" * 20
    plain = encode_batch([Record(b"x", timestamp_ms=1)])
    assert produced(node, bytes(bad), plain) == ["INVALID_ARGUMENT", 0]
    assert node.call(Stage(TOPIC, 0, "t", bytes(bad))).code == "INVALID_ARGUMENT"
    assert node.call(Stage(TOPIC, 0, "t", packed(3 * MIB))).code == "Staged"


def test_a_leader_that_was_replaced_meanwhile_stores_nothing(node: Node) -> None:
    held: list[Callable[[], None]] = []
    host = node.partition(TOPIC)
    host._arrivals._aside = lambda work, done: held.extend((work, done))
    answer = node.ask(Produce(TOPIC, 0, packed(3 * MIB)))
    for action in held:
        host.replica.raft.role = FOLLOWER
        action()
    assert answer.code == "NOT_LEADER"


def test_the_thread_rests_after_a_batch_for_twice_the_time_that_it_took() -> None:
    clock = SimulatedTime()
    opener = BatchOpener(clock)  # type: ignore[arg-type]
    begun: list[int] = []

    def begin() -> None:
        begun.append(clock.at_ms)

    for _ in range(3):
        opener.wait_turn(begin)
    assert begun == [0]
    for _ in range(2):
        clock.at_ms += 10
        opener.end_turn()
        clock.run()
    assert begun == [0, 30, 60]
    clock.at_ms += 10
    opener.end_turn()
    opener.wait_turn(begin)
    assert len(begun) == 3, "it rests"
    clock.run()
    assert begun[3:] == [90]
    opener.end_turn()
    clock.run()
    opener.wait_turn(begin)
    assert begun[4:] == [90], "alone it waits for nothing"


class SimulatedTime:
    def __init__(self) -> None:
        self.at_ms = 0
        self._timers: list[tuple[int, Callable[[], None]]] = []

    def steady_ms(self) -> int:
        return self.at_ms

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._timers.append((self.at_ms + delay_ms, action))

    def run(self) -> None:
        ((self.at_ms, action),) = self._timers
        self._timers.clear()
        action()
