"""Files of other projects are kept as they came: their checksums are beside them, and so are their licences."""

from hashlib import sha256
from pathlib import Path

import pytest

from tests.tidy.tree import PACKAGE, ROOT

FOLDERS = (PACKAGE / "console" / "vendor", ROOT / "tests" / "integration" / "console" / "vendor")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name + "/" + folder.name)
def test_vendored_files_have_their_checksums(folder: Path) -> None:
    lines = [line for line in (folder / "CHECKSUMS").read_text("utf-8").splitlines() if not line.startswith("#")]
    recorded = {name: digest for digest, name in (line.split() for line in lines)}
    found = {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.name != "CHECKSUMS"}
    assert found == recorded
    assert any(name.startswith("LICENSE.") for name in found)
