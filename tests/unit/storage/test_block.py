"""Blocks: a written block is found, and nothing else is valid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.raft.messages import CONFIG, DATA, Entry, HardState
from flotilla.storage.block import (
    COPIES_FLAG,
    FIRST,
    MARK,
    MARK_BYTES,
    TWIN,
    PendingBlock,
    encode_mark,
    find_directory,
    has_all_bodies,
    has_all_copies,
    records_of,
)
from flotilla.storage.framing import ENTRY, HARD_STATE, hard_state_record, parse_hard_state, seal, sectors
from flotilla.storage.journal_scan import JournalScan
from flotilla.storage.store_format import Salt
from flotilla.types.errors import CorruptionError
from flotilla.types.records import Span

SALT = Salt(0x9E3779B97F4A7C15)


def _block(sequence: int, sizes: list[int], *, checkpoint: bool = False) -> PendingBlock:
    block = PendingBlock(sequence)
    for index, size in enumerate(sizes, 1):
        entry = Entry(index, 3, DATA, bytes([index % 256]) * size)
        block.records.append(seal(ENTRY, 5, entry, Span(index, 1, 7), SALT.value))
        block.bodies.append(entry.data)
    block.records.append(hard_state_record(5, HardState(3, 1, 2)))
    block.flags = int(checkpoint)
    block.close()
    return block


def _file(*blocks: PendingBlock, number: int = 1, marked: bool = True) -> bytearray:
    content = bytearray()
    for block in blocks:
        content += b"".join(block.encode(number, len(content), SALT))
        content += encode_mark(number, len(content), block.sequence, SALT) if marked else bytes(MARK_BYTES)
    return content + bytes(4096)


@given(st.lists(st.integers(0, 1500), max_size=12), st.integers(1, 9))
def test_a_block_is_found_as_it_was_written(sizes: list[int], number: int) -> None:
    block = _block(8, sizes)
    content = b"".join(block.encode(number, 1024, SALT))
    assert len(content) == block.size_bytes == sectors(len(content))
    data = memoryview(bytes(1024) + content)
    first = find_directory(data, 1024, number, SALT)
    assert first is not None
    assert (first.copy, first.sequence, first.end) == (FIRST, 8, 1024 + len(content))
    twin_at = 1024 + len(content) - sectors(64 + len(first.records))
    twin = find_directory(data, twin_at, number, SALT)
    assert twin is not None
    assert (twin.copy, twin.position, bytes(twin.records)) == (TWIN, 1024, bytes(first.records))
    # No sector holds bytes of both copies.
    assert twin_at >= sectors(1024 + 64 + len(first.records))
    for image in (first, twin):
        *entries, last = records_of(image)
        assert [body and bytes(body) for _, _, _, body in entries] == [
            bytes([index % 256]) * size or memoryview(b"") for index, size in enumerate(sizes, 1)
        ]
        assert last[0] == HARD_STATE
        assert parse_hard_state(last[1]) == (5, HardState(3, 1, 2))


@given(st.lists(st.tuples(st.sampled_from((DATA, CONFIG)), st.integers(8, 5000)), min_size=1, max_size=6))
def test_a_configuration_is_stored_in_two_sectors(kinds_and_sizes: list[tuple[int, int]]) -> None:
    block = PendingBlock(8)
    for index, (kind, size) in enumerate(kinds_and_sizes, 1):
        entry = Entry(index, 3, kind, bytes([index]) * size)
        block.add(seal(ENTRY, 5, entry, None, SALT.value), kind, entry.data)
    block.records.append(hard_state_record(5, HardState(3, 1, 2)))
    block.close()
    content = bytearray(1024) + b"".join(block.encode(1, 1024, SALT))
    whole = find_directory(memoryview(bytes(content)), 1024, 1, SALT)
    assert whole is not None
    assert whole.has_copies == any(kind == CONFIG for kind, _ in kinds_and_sizes)
    assert has_all_copies(whole)
    expected = [bytes([index]) * size for index, (_, size) in enumerate(kinds_and_sizes, 1)]
    assert [bytes(body) for *_, body in records_of(whole) if body is not None] == expected
    # A program that does not know the flag reads the same.
    whole.flags &= ~COPIES_FLAG
    assert [bytes(body) for *_, body in records_of(whole) if body is not None] == expected
    for sector in range(1024, len(content), 4096):
        bad = content[:sector] + bytes(4096) + content[sector + 4096 :]
        places = [at for at in (1024, whole.twin_position) if not sector <= at < sector + 4096]
        image = next(filter(None, (find_directory(memoryview(bytes(bad)), at, 1, SALT) for at in places)))
        lost = [index for index, (_, _, frame, body) in enumerate(records_of(image)) if frame and body is None]
        assert all(kinds_and_sizes[index][0] == DATA for index in lost)
        assert has_all_bodies(image) == (not lost)
        is_of_copies = whole.has_copies and image.bodies_at + sum(map(len, expected)) <= sector < image.twin_position
        assert not (is_of_copies and has_all_copies(image))


@pytest.mark.parametrize(("at", "number"), [(0, 1), (1024, 2), (512, 1)])
def test_bytes_from_another_place_are_not_valid(at: int, number: int) -> None:
    content = b"".join(_block(8, [10]).encode(1, 1024, SALT))
    assert find_directory(memoryview(bytes(at) + content), at, number, SALT) is None


@given(st.data())
def test_a_directory_with_a_flipped_bit_is_not_valid(data: st.DataObject) -> None:
    content = bytearray(b"".join(_block(8, [10, 20]).encode(1, 0, SALT)))
    bit = data.draw(st.integers(0, (64 + 2 * 56 + 40) * 8 - 1))
    content[bit // 8] ^= 1 << bit % 8
    assert find_directory(memoryview(bytes(content)), 0, 1, SALT) is None


def test_a_mark_is_a_sector_of_its_own() -> None:
    mark = encode_mark(3, 512, 9, SALT)
    assert len(mark) == MARK_BYTES
    image = find_directory(memoryview(bytes(512) + mark), 512, 3, SALT)
    assert image is not None
    assert (image.copy, image.sequence) == (MARK, 9)


def _scan(*files: bytearray) -> JournalScan:
    scan = JournalScan(SALT)
    for number, content in enumerate(files, 1):
        scan.add_file(number, bytes(content))
    return scan


def test_the_newer_file_counts_for_a_sequence_in_two() -> None:
    old = _file(_block(1, [5], checkpoint=True), _block(2, [700]), marked=False)
    new = _file(_block(2, [700]), _block(3, [1]), number=2)
    chain = _scan(old, new).chain()
    assert [(image.sequence, image.file_number) for image in chain] == [(1, 1), (2, 2), (3, 2)]
    # Torn in the newer one: the older copy is as good.
    new[600] ^= 1
    assert [image.file_number for image in _scan(old, new).chain()] == [1, 1, 2]


def test_a_missing_sequence_after_the_checkpoint_is_refused() -> None:
    old = _file(_block(1, [5], checkpoint=True))
    new = _file(_block(3, [5]), number=2)
    with pytest.raises(CorruptionError, match="block 2"):
        _scan(old, new).chain()


def test_a_missing_sequence_before_the_checkpoint_is_ignored() -> None:
    new = _file(_block(3, [5]), _block(7, [5], checkpoint=True), _block(8, [5]))
    assert [image.sequence for image in _scan(new).chain()] == [3, 7, 8]


def test_blocks_without_any_checkpoint_are_refused() -> None:
    with pytest.raises(CorruptionError, match="checkpoint"):
        _scan(_file(_block(3, [5]))).chain()


def test_a_proof_without_its_block_is_refused() -> None:
    content = _file(_block(1, [5], checkpoint=True), _block(2, [5]))
    size = _block(1, [5]).size_bytes + MARK_BYTES
    content[size : size + _block(2, [5]).size_bytes] = bytes(_block(2, [5]).size_bytes)
    with pytest.raises(CorruptionError, match="block 2 was durable"):
        _scan(content).chain()


def test_empty_and_unwritten_files_are_clean() -> None:
    assert _scan(bytearray(), bytearray(8192)).chain() == []
