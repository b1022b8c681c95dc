"""A disk with little room: the node warns, then refuses new messages, and accepts them again by itself."""

import pytest

from flotilla.broker.disk.room import DiskRoom, Room, readable
from flotilla.types.errors import DiskFullError
from flotilla.types.notation import Watermark
from flotilla.types.operations import Produce, Produced
from flotilla.types.operations.cluster import DISK_LOW, DISK_REFUSES, DescribeNode, NodeDescribed
from flotilla.types.operations.log import PartitionTrimmed, TrimPartition
from flotilla.types.operations.topics import DeleteTopic
from flotilla.types.operations.transactions import Stage
from flotilla.types.setting_kinds import watermark
from tests.unit.broker.fleet import Node, batch, single_node
from tests.unit.broker.queue_driver import TOPIC, ack, describe, polled, store

SIZE = 1_000_000


@pytest.fixture
def node() -> Node:
    node = single_node()
    node.fleet.create(TOPIC)
    store(node, b"a", b"b")
    return node


def see(node: Node, free_bytes: int) -> NodeDescribed:
    node.room.saw(Room(free_bytes, SIZE))
    described = node.call(DescribeNode()).result
    assert isinstance(described, NodeDescribed)
    assert described.disk_free_bytes == free_bytes
    return described


def codes(described: NodeDescribed) -> list[str]:
    return [warning.code for warning in described.warnings if warning.code in (DISK_LOW, DISK_REFUSES)]


def test_the_levels_and_their_edges(node: Node) -> None:
    levels = {SIZE: [], 50_000: [], 49_999: [DISK_LOW], 10_000: [DISK_LOW], 9_999: [DISK_REFUSES], 0: [DISK_REFUSES]}
    for free, expected in {**levels, 60_000: []}.items():
        assert codes(see(node, free)) == expected
        assert isinstance(node.call(Produce(TOPIC, 0, batch())).result, Produced) == (DISK_REFUSES not in expected)


def test_a_refused_message_names_the_disk_and_changes_nothing(node: Node) -> None:
    see(node, 5_000)
    refused = node.call(Produce(TOPIC, 0, batch())).result
    assert isinstance(refused, DiskFullError)
    assert str(refused) == (
        "the disk of node 1 (its-disk) has 4.9KiB of 976.6KiB free, less than disk_refuse_free = 1%: "
        "it takes no new messages"
    )
    assert (refused.retryable, refused.retry_after_ms) == (True, 1_000)
    assert isinstance(node.call(Stage(TOPIC, 0, "t", batch())).result, DiskFullError)
    see(node, SIZE)
    assert node.call(Produce(TOPIC, 0, batch())).result == Produced(2)


def test_what_ends_work_or_frees_room_goes_on(node: Node) -> None:
    see(node, 5_000)
    ack(node, polled(node))
    assert describe(node).lag == 0
    assert isinstance(node.call(TrimPartition(TOPIC, 0, 2)).result, PartitionTrimmed)
    assert not isinstance(node.call(DeleteTopic(TOPIC)).result, Exception)


def test_a_batch_that_was_stored_before_is_confirmed(node: Node) -> None:
    numbered = batch(b"c", producer=7, sequence=0)
    assert node.call(Produce(TOPIC, 0, numbered)).result == Produced(2)
    see(node, 5_000)
    assert node.call(Produce(TOPIC, 0, numbered)).result == Produced(2, duplicate=True)
    later = batch(b"d", producer=7, sequence=1)
    assert isinstance(node.call(Produce(TOPIC, 0, later)).result, DiskFullError)
    see(node, SIZE)
    assert node.call(Produce(TOPIC, 0, later)).result == Produced(3)


def test_each_change_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "flotilla.disk")
    room = DiskRoom(3, "/data", Watermark(200), Watermark(100))
    for free in (500, 150, 140, 50, 40, 150, 500, 500):
        room.saw(Room(free, SIZE))
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "the disk is low on room"),
        ("ERROR", "the disk is nearly full: new messages are refused"),
        ("INFO", "the disk has room again: new messages are accepted"),
        ("INFO", "the disk has room again"),
    ]


def test_without_watermarks_or_a_known_size_nothing_is_refused() -> None:
    for marks, room in (((Watermark(), Watermark()), Room(0, SIZE)), ((Watermark(9), Watermark(9)), Room(0, 0))):
        disk = DiskRoom(1, "", *marks)
        disk.saw(room)
        disk.check()
        assert disk.warnings() == []


@pytest.mark.parametrize(
    ("written", "value", "shown"),
    [
        ("5%", Watermark(percent=5), "5%"),
        ("10GiB", Watermark(10 << 30), "10GiB"),
        ("0", Watermark(), "0B"),
        (4096, Watermark(4096), "4KiB"),
    ],
)
def test_a_watermark_is_a_size_or_a_share(written: object, value: Watermark, shown: str) -> None:
    kind = watermark()
    assert kind.read(written) == value
    assert kind.format(value) == shown
    assert kind.read(shown) == value


@pytest.mark.parametrize("written", ["51%", "-1%", "%", "5 percent", "-5", True, 1.5, -1])
def test_other_watermarks_are_refused(written: object) -> None:
    with pytest.raises(ValueError, match=r"expected|not a whole number"):
        watermark().read(written)


def test_sizes_for_people() -> None:
    shown = [readable(size) for size in (0, 1, 1023, 1024, 1536, 1 << 30, 3 << 39)]
    assert shown == ["0B", "1B", "1023B", "1.0KiB", "1.5KiB", "1.0GiB", "1.5TiB"]
