"""Probes measure the given number of times and leave no files."""

from pathlib import Path

import pytest

from flotilla.cli.bench.probes import copy_rate, disk_durations, echo_durations, scratch


def test_the_disk_probe_cleans_up(tmp_path: Path) -> None:
    durations = disk_durations(tmp_path, 512, 3)
    assert len(durations) == 3
    assert min(durations) > 0
    assert list(tmp_path.iterdir()) == []


def test_scratch_is_gone_even_after_an_error(tmp_path: Path) -> None:
    def fail() -> None:
        with scratch(tmp_path, "x") as folder:
            (folder / "file").touch()
            (folder / "file" / "below").touch()

    with pytest.raises(NotADirectoryError):
        fail()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size_bytes", [1, 100, 300_000])
def test_every_echo_comes_back(size_bytes: int) -> None:
    assert len(echo_durations(size_bytes, 4)) == 4


def test_a_copy_has_a_rate() -> None:
    assert copy_rate(1_000_000) > 0
