"""A data directory belongs to one node of one cluster, and its store to its identity."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from flotilla.runtime.data_dir_identity import DataDir, read_identity, set_aside
from flotilla.runtime.path_folder import PathFolder
from flotilla.types.errors import CorruptionError, InvalidArgumentError
from flotilla.types.version import CLUSTER_VERSION_MAX

OWN = (2, "ships")


def started(path: Path, times: int = 1) -> DataDir:
    """A directory that a node was started on; a folder stands for the store."""
    for _ in range(times):
        data = DataDir.claim(PathFolder(path), *OWN)
        for part in ("journal", "groups"):
            (path / part).mkdir(exist_ok=True)
        (path / "format").touch()
        data.count_start()
    return data


def test_a_new_directory_is_claimed_and_stays_claimed(tmp_path: Path):
    data = tmp_path / "data"
    first = DataDir.claim(PathFolder(data), *OWN).identity
    assert first.incarnation > 0
    assert DataDir.claim(PathFolder(data), *OWN).identity == first == read_identity(PathFolder(data))
    assert data.stat().st_mode & 0o777 == 0o700
    assert (data / "identity.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("other", "complaint"), [((3, "ships"), "belongs to node 2"), ((2, "boats"), "cluster 'ships'")]
)
def test_anothers_data_is_refused(tmp_path: Path, other: tuple[int, str], complaint: str):
    first = DataDir.claim(PathFolder(tmp_path), *OWN)
    with pytest.raises(InvalidArgumentError, match=complaint):
        DataDir.claim(PathFolder(tmp_path), *other)
    assert DataDir.claim(PathFolder(tmp_path), *OWN).identity == first.identity


def test_every_directory_has_a_number_of_its_own(tmp_path: Path):
    assert (
        len({DataDir.claim(PathFolder(tmp_path / str(number)), *OWN).identity.incarnation for number in range(20)})
        == 20
    )


def test_data_without_identity_is_refused(tmp_path: Path):
    (tmp_path / "journal").mkdir()
    with pytest.raises(InvalidArgumentError, match="without an identity"):
        DataDir.claim(PathFolder(tmp_path), *OWN)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"node": "x", "cluster": "y"}', '{"node": 2, "cluster": "ships"}'])
def test_a_damaged_identity_is_refused(tmp_path: Path, text: str):
    (tmp_path / "identity.json").write_text(text)
    with pytest.raises(CorruptionError, match=f"damaged.*`flotilla node repair {tmp_path}`"):
        DataDir.claim(PathFolder(tmp_path), *OWN)


def test_the_cluster_id_is_written_once_and_another_one_is_refused(tmp_path: Path):
    data = DataDir.claim(PathFolder(tmp_path), *OWN)
    data.founded({1: 11, 3: 33}, {1: "one:7", 3: "three:7"})
    data.entered("aa", 1)
    data.entered("aa", 1)
    assert read_identity(PathFolder(tmp_path)) == data.identity
    assert (data.identity.cluster_id, data.identity.founders) == ("aa", {1: 11, 3: 33})
    assert data.identity.founder_addresses == {1: "one:7", 3: "three:7"}
    with pytest.raises(CorruptionError, match="belongs to cluster aa"):
        data.entered("bb", 1)
    assert read_identity(PathFolder(tmp_path)).cluster_id == "aa"


def test_a_directory_of_a_cluster_of_a_later_version_is_refused(tmp_path: Path):
    data = DataDir.claim(PathFolder(tmp_path), *OWN)
    data.entered("aa", 2)
    # Metadata that are read again begin with earlier versions.
    data.entered("aa", 1)
    assert DataDir.claim(PathFolder(tmp_path), *OWN).identity.cluster_version == 2
    later = CLUSTER_VERSION_MAX + 1
    data.entered("aa", later)
    for read in (lambda folder: DataDir.claim(folder, *OWN), read_identity):
        expected = f"is at version {later}, and this program supports versions 1 to {CLUSTER_VERSION_MAX}"
        with pytest.raises(InvalidArgumentError, match=expected):
            read(PathFolder(tmp_path))


# Identity and store.


def test_starts_are_counted_in_both_places(tmp_path: Path):
    assert [started(tmp_path).identity.starts for _ in range(3)] == [1, 2, 3]
    assert (tmp_path / "journal" / "starts").read_text() == "3\n"


def test_an_identity_without_its_store_is_refused_with_the_command_that_helps(tmp_path: Path):
    started(tmp_path)
    for part in ("journal", "groups"):
        shutil.rmtree(tmp_path / part)
    (tmp_path / "format").unlink()
    with pytest.raises(CorruptionError, match=f"flotilla node repair {tmp_path}`.*--join"):
        DataDir.claim(PathFolder(tmp_path), *OWN)


def test_a_store_that_is_older_than_its_identity_is_refused(tmp_path: Path):
    started(tmp_path / "data", times=2)
    shutil.copytree(tmp_path / "data" / "journal", tmp_path / "backup")
    started(tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "journal")
    shutil.copytree(tmp_path / "backup", tmp_path / "data" / "journal")
    with pytest.raises(CorruptionError, match="of start 2, and its identity of start 3"):
        DataDir.claim(PathFolder(tmp_path / "data"), *OWN)


def test_a_first_start_that_ended_before_it_was_counted_may_be_repeated(tmp_path: Path):
    DataDir.claim(PathFolder(tmp_path), *OWN)
    assert started(tmp_path).identity.starts == 1


def test_a_crash_between_the_two_counts_is_harmless(tmp_path: Path):
    data = started(tmp_path, times=3)
    data._put(replace(data.identity, starts=2))
    assert started(tmp_path).identity.starts == 4


def test_setting_the_store_aside_gives_the_directory_a_new_number_and_deletes_nothing(tmp_path: Path):
    data = started(tmp_path, times=3)
    data.entered("aa", 1)
    data.founded({1: 11}, {1: "one:7"})
    before = data.identity
    folder = set_aside(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["format", "groups", "journal"]
    after = read_identity(PathFolder(tmp_path))
    assert after == replace(before, incarnation=after.incarnation, starts=0, founders={}, founder_addresses={})
    assert after.incarnation != before.incarnation
    # And again, after it was started anew.
    started(tmp_path)
    assert set_aside(tmp_path) == tmp_path / "set-aside-2"
    assert folder.exists()


def test_a_crash_while_the_store_is_set_aside_leaves_a_directory_that_does_not_start(tmp_path: Path):
    started(tmp_path)
    (tmp_path / "journal").rename(tmp_path / "elsewhere")
    with pytest.raises(CorruptionError):
        DataDir.claim(PathFolder(tmp_path), *OWN)
    set_aside(tmp_path)
    DataDir.claim(PathFolder(tmp_path), *OWN)
