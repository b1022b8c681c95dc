"""`flotilla archive run` as a process that is killed while a file is half written, on a disk and on S3."""

import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

from flotilla import Client
from flotilla.lake.archive import ArchiveOptions, run_archive, run_here
from flotilla.lake.lake import Lake
from flotilla.lake.table import TopicTable
from flotilla.lake.vacuum import removable
from flotilla.lake.verification import verify_table
from flotilla.testing import LocalBroker
from tests.integration.lake.archived import expected, produce, stored

PROGRAM_S_MAX = 300
#: The command, which dies when a file of the second batch has its first bytes.
PROGRAM = """
    import os, signal
    from flotilla.cli.app import app
    from flotilla.lake import archive
    from flotilla.lake.store import CheckedFile

    commits, write = [], CheckedFile.write
    add = archive.TopicTable.add

    def add_and_note(self, files, schema=""):
        commits.append(add(self, files, schema))
        return commits[-1]

    def write_or_die(self, data):
        size = write(self, data)
        if commits and self.size_bytes > 100:
            self.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return size

    archive.TopicTable.add, CheckedFile.write = add_and_note, write_or_die
    app()
"""


def is_half(table: TopicTable, path: str) -> bool:
    """Whether it has the beginning of a Parquet file and not its end."""
    data = table.read(path) or b""
    return data.startswith(b"PAR1") and not data.endswith(b"PAR1")


@pytest.mark.slow
def test_a_process_that_is_killed_in_the_middle_of_a_file(
    broker: LocalBroker, client: Client, topic: Callable[..., str], lake: str
) -> None:
    name = topic()
    produce(client, name, 400)
    words = ["archive", "run", "--topic", name, "--lake", lake, "--once", "--batch-rows", "200"]
    died = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), *words, "--servers", broker.address],
        capture_output=True,
        timeout=PROGRAM_S_MAX,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()[-2_000:]
    table = Lake(lake).table(name)
    spans = table.spans()
    assert table.snapshot().rows == 200, "the first batch was committed"
    if "://" not in lake:
        assert [path for path in removable(table, 0) if is_half(table, path)]
    assert all((client.committed_offset(name, "archive", number) or 0) <= span.end for number, span in spans.items())

    assert run_archive(ArchiveOptions(broker.address, [name], lake)).rows == 200
    assert stored(lake, name) == expected(400)
    assert verify_table(Lake(lake).table(name), run_here).rows == 400
    assert [client.committed_offset(name, "archive", number) for number in (0, 1)] == [200, 200]
