"""A data directory belongs to one node of one cluster."""

from pathlib import Path

import pytest

from flotilla.runtime.data_dir_identity import DataDirIdentity, claim_data_dir
from flotilla.types.errors import InvalidArgumentError

OWN = DataDirIdentity(2, "ships")


def test_a_new_directory_is_claimed_and_stays_claimed(tmp_path: Path):
    data = tmp_path / "data"
    first = claim_data_dir(data, OWN)
    assert first.is_new
    assert first.incarnation > 0
    assert claim_data_dir(data, OWN) == (False, first.incarnation)
    assert data.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("other", "complaint"),
    [(DataDirIdentity(3, "ships"), "belongs to node 2"), (DataDirIdentity(2, "boats"), "cluster 'ships'")],
)
def test_anothers_data_is_refused(tmp_path: Path, other: DataDirIdentity, complaint: str):
    claim_data_dir(tmp_path, OWN)
    with pytest.raises(InvalidArgumentError, match=complaint):
        claim_data_dir(tmp_path, other)
    assert not claim_data_dir(tmp_path, OWN).is_new


def test_every_directory_has_a_number_of_its_own(tmp_path: Path):
    assert len({claim_data_dir(tmp_path / str(number), OWN).incarnation for number in range(20)}) == 20


def test_a_directory_of_an_older_version_gets_its_number_once(tmp_path: Path):
    (tmp_path / "identity.json").write_text('{"node": 2, "cluster": "ships"}')
    first = claim_data_dir(tmp_path, OWN)
    assert not first.is_new
    assert first.incarnation > 0
    assert claim_data_dir(tmp_path, OWN) == first


def test_data_without_identity_is_refused(tmp_path: Path):
    (tmp_path / "journal").mkdir()
    with pytest.raises(InvalidArgumentError, match="without an identity"):
        claim_data_dir(tmp_path, OWN)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"node": "x", "cluster": "y"}'])
def test_a_damaged_identity_is_refused(tmp_path: Path, text: str):
    (tmp_path / "identity.json").write_text(text)
    with pytest.raises(InvalidArgumentError, match="damaged"):
        claim_data_dir(tmp_path, OWN)
