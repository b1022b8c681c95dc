"""Manifests: their content, and that only the next version can follow."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.spark.lake.manifest import (
    DataFile,
    Manifest,
    Run,
    Span,
    decode,
    encode,
    join_runs,
)
from flotilla.types.errors import CorruptionError, InvalidArgumentError


def file(*runs: tuple[int, int, int], topic: str = "orders", name: str = "") -> DataFile:
    made = tuple(Run(*run) for run in runs)
    path = f"topic={topic}/date=2030-01-01/{name or made[0]}.parquet"
    return DataFile(path, topic, made, 100, "c0ffee", 1, 2)


def test_batches_are_taken_in_order_and_known_afterwards() -> None:
    first = Manifest().with_batch("q", 0, [file((0, 0, 10)), file((1, 5, 7))])
    second = first.with_batch("q", 3, [file((0, 10, 12))])
    assert (first.version, second.version) == (1, 2)
    assert second.spans() == {("orders", 0): Span(0, 12), ("orders", 1): Span(5, 7)}
    assert (second.rows, second.topics) == (14, ["orders"])
    assert [second.has_batch("q", batch) for batch in (0, 2, 3, 4)] == [True, True, True, False]
    assert not second.has_batch("another", 0)


def test_rows_of_several_days_are_one_range() -> None:
    """Times may go back and forth over midnight: then files have every other offset."""
    made = Manifest().with_batch("q", 0, [file((0, 0, 2), (0, 4, 5)), file((0, 2, 4), name="other")])
    assert made.spans() == {("orders", 0): Span(0, 5)}


@pytest.mark.parametrize(
    ("runs", "fault"),
    [
        ([(0, 11, 12)], "the lake ends at 10"),
        ([(0, 9, 12)], "the lake ends at 10"),
        ([(0, 10, 11), (0, 12, 13)], "are missing"),
    ],
)
def test_a_batch_that_does_not_follow_is_refused(runs: list[tuple[int, int, int]], fault: str) -> None:
    manifest = Manifest().with_batch("q", 0, [file((0, 0, 10))])
    with pytest.raises(InvalidArgumentError, match=fault):
        manifest.with_batch("q", 1, [file(*runs)])


def test_an_offset_twice_is_found_wherever_it_is() -> None:
    with pytest.raises(CorruptionError, match="offset 5 twice"):
        Manifest().with_batch("q", 0, [file((0, 0, 6)), file((0, 5, 8))])
    with pytest.raises(CorruptionError, match="not one range"):
        Manifest(files=(file((0, 0, 6)), file((0, 7, 8)))).spans()


def test_compaction_changes_files_and_nothing_else() -> None:
    old = [file((0, 0, 3)), file((0, 3, 5)), file((1, 0, 2))]
    manifest = Manifest().with_batch("q", 0, [*old, file((2, 0, 1))])
    new = file((0, 0, 5), (1, 0, 2), name="large")
    made = manifest.compacted(old, [new], 1_000)
    assert made.spans() == manifest.spans()
    assert made.version == manifest.version + 1
    assert new in made.files
    assert len(made.files) == 2
    assert made.expired(500, 1_499) == []
    assert made.expired(500, 1_500) == [each.path for each in old]
    assert made.forgetting([old[0].path]).expired(0, 1_000) == [each.path for each in old[1:]]


def test_compaction_that_loses_or_invents_is_refused() -> None:
    old = [file((0, 0, 3)), file((0, 3, 5))]
    manifest = Manifest().with_batch("q", 0, old)
    for wrong in (file((0, 0, 4), name="x"), file((0, 0, 6), name="x"), file((1, 0, 5), name="x")):
        with pytest.raises(InvalidArgumentError):
            manifest.compacted(old, [wrong], 0)
    with pytest.raises(InvalidArgumentError):
        manifest.compacted([file((7, 0, 3))], [file((7, 0, 3), name="x")], 0)


runs = st.builds(
    lambda partition, first, count: Run(partition, first, first + count),
    st.integers(0, 3),
    st.integers(0, 30),
    st.integers(1, 10),
)


@given(st.lists(runs, max_size=8))
def test_joined_runs_have_the_same_offsets(given_runs: list[Run]) -> None:
    offsets = [(run.partition, offset) for run in given_runs for offset in range(run.first, run.end)]
    if len(set(offsets)) != len(offsets):
        with pytest.raises(CorruptionError):
            join_runs(given_runs)
        return
    joined = join_runs(given_runs)
    assert sorted((run.partition, offset) for run in joined for offset in range(run.first, run.end)) == sorted(offsets)
    for one, other in pairwise(joined):
        assert one.partition != other.partition or one.end < other.first


def test_a_manifest_is_encoded_and_decoded_and_damage_is_noticed() -> None:
    manifest = Manifest().with_batch("q", 4, [file((0, 0, 3)), file((1, 0, 2))])
    manifest = manifest.compacted(manifest.files, [file((0, 0, 3), (1, 0, 2), name="large")], 77)
    data = encode(manifest)
    assert decode(data) == manifest
    for damaged in (data[:-3], data.replace(b"c0ffee", b"c0ffef"), b"", b"[]", b'{"manifest": "{}"}'):
        with pytest.raises(CorruptionError):
            decode(damaged)


def test_another_format_is_refused_by_name() -> None:
    from flotilla.spark.lake import manifest as module

    text = json.dumps({"format": 2})
    with pytest.raises(InvalidArgumentError, match="format 1, not 2"):
        decode(json.dumps({"digest": module._digest(text), "manifest": text}).encode())
