"""Memory of reads is used again when nobody can see it any more, and never before."""

from pathlib import Path

import pytest

from flotilla.storage.posix import PosixDisk
from flotilla.storage.reads.read_buffers import ReadBuffers
from flotilla.types.limits import KIB, MIB, READ_BUFFERS_BYTES_MAX


def owner(view: memoryview) -> int:
    return id(view.obj)


def test_a_buffer_is_taken_again_after_its_last_view_is_gone() -> None:
    buffers = ReadBuffers()
    first = buffers.take(100 * KIB)
    assert len(first) == 100 * KIB
    part, number = first.toreadonly()[5:6], owner(first)
    del first
    other = buffers.take(MIB)
    assert owner(other) != number, "a part of it is in use"
    del part
    assert owner(buffers.take(MIB)) == number


def test_when_all_are_in_use_a_read_gets_new_memory_that_is_not_kept() -> None:
    buffers = ReadBuffers()
    held = [buffers.take(MIB) for _ in range(2 * READ_BUFFERS_BYTES_MAX // MIB)]
    numbers = {owner(view) for view in held}
    assert len(numbers) == len(held)
    kept = {owner(view) for view in held[: READ_BUFFERS_BYTES_MAX // MIB]}
    held.clear()
    again = [buffers.take(MIB) for _ in range(READ_BUFFERS_BYTES_MAX // MIB)]
    assert {owner(view) for view in again} == kept


@pytest.mark.parametrize("length", [0, 1, 64 * KIB - 1, MIB + 1])
def test_sizes_out_of_the_ordinary_are_not_kept(length: int) -> None:
    buffers = ReadBuffers()
    view = buffers.take(length)
    assert len(view) == length
    assert isinstance(view.obj, bytearray)
    assert len(view.obj) == length


def test_what_a_reader_holds_stays_as_it_was_read(tmp_path: Path) -> None:
    disk = PosixDisk(str(tmp_path))
    file = disk.open("log", create=True)
    file.write(0, [bytes([number]) * (128 * KIB) for number in range(40)])
    held = {}
    for number in range(40):
        content = file.read_cached(number * 128 * KIB, 128 * KIB)
        if content is None:
            pytest.skip("this file system cannot tell what is in the page cache")
        if number % 2:
            held[number] = memoryview(content)[1000:1010]
    assert held == {number: bytes([number]) * 10 for number in range(1, 40, 2)}
    file.close()
    disk.close()
