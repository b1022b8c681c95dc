"""The program of the last release, out of the history of this repository."""

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

from tests.integration.broker.cluster import ROOT

#: The commit of the last release; the first one, 0.2.0, is not published yet. A release moves it to its own.
LAST_RELEASE = "c3589679"


def earlier_source(folder: Path) -> Path | None:
    """The folder with the package, as PYTHONPATH takes it; None: there is no history, as in a shallow clone."""
    words = ["git", "-C", str(ROOT), "archive", "--format=tar", LAST_RELEASE, "src/flotilla"]
    try:
        found = subprocess.run(words, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    with tarfile.open(fileobj=BytesIO(found.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return folder / "src"
