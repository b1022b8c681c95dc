"""The library under a process: what it notes, what a power cut then takes away, and the faults that it injects."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from flotilla.cli.chaos.machine.preload import ALWAYS_PPM, Machine, build_preload, missing_compiler
from flotilla.cli.chaos.machine.undo_log import SECTOR_BYTES, UndoLog

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler() or "-"),
]

#: Each script begins with this: a data directory, and a file `f` of two sectors that is durable.
BEGIN = """
import os, sys, time, errno
os.makedirs(sys.argv[1], exist_ok=True); os.chdir("/")
root = sys.argv[1]
def path(name): return os.path.join(root, name)
def sync_folder():
    d = os.open(root, os.O_RDONLY); os.fsync(d); os.close(d)
f = os.open(path("f"), os.O_RDWR | os.O_CREAT)
os.pwrite(f, b"a" * 8192, 0); os.fsync(f); sync_folder()
def failure(call):
    try: call()
    except OSError as error: return errno.errorcode[error.errno]
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_preload(tmp_path_factory.mktemp("library"))


@pytest.fixture
def machine(library: Path, tmp_path: Path) -> Machine:
    return Machine(library, tmp_path / "node")


def run(machine: Machine, script: str) -> str:
    command = [sys.executable, "-c", BEGIN + script, str(machine.data)]
    ran = subprocess.run(command, env={**os.environ, **machine.environment}, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def outcomes(machine: Machine, script: str, tries: int = 40) -> set[bytes]:
    """The first byte of each sector of `f` after cuts with different luck; noise counts as `?`."""
    found = set()
    for seed in range(tries):
        run(machine, script) if seed == 0 else None
        image, undo = _copied(machine, seed)
        UndoLog(undo).cut_power(image, Random(seed))
        content = (image / "f").read_bytes()
        firsts = [content[at : at + 1] for at in range(0, len(content), SECTOR_BYTES)]
        found.add(b"".join(first if first in b"abc\0" else b"?" for first in firsts))
    return found


def _copied(machine: Machine, seed: int) -> tuple[Path, Path]:
    """A copy of the data directory and its log: hard links keep inodes, so the files are written anew in place."""
    image = machine.data
    undo = machine.undo.with_name(f"undo-{seed}")
    undo.mkdir()
    log = machine.undo / "log"
    if seed == 0:
        _copied.content = (image / "f").read_bytes()  # type: ignore[attr-defined]
    with (image / "f").open("r+b") as file:
        file.truncate(0)
        file.write(_copied.content)  # type: ignore[attr-defined]
    (undo / "log").write_bytes(log.read_bytes() if log.exists() else b"")
    return image, undo


def test_what_was_synced_stays(machine: Machine) -> None:
    assert outcomes(machine, "os.pwrite(f, b'b' * 8192, 0); os.fdatasync(f)", 10) == {b"bb"}
    assert machine.count("syncs") >= 3


def test_unsynced_sectors_are_old_or_new_each_by_itself(machine: Machine) -> None:
    found = outcomes(machine, "os.pwrite(f, b'b' * 8192, 0)")
    assert {b"aa", b"ab", b"ba", b"bb"} <= found
    assert any(b"?" in each for each in found)


def test_a_durable_write_in_one_call_covers_itself_only(machine: Machine) -> None:
    script = "os.pwrite(f, b'b' * 4096, 4096); os.pwritev(f, [b'c' * 4096], 0, os.RWF_DSYNC)"
    found = {each.replace(b"?", b"a") for each in outcomes(machine, script)}
    assert found == {b"ca", b"cb"}


def test_after_a_failed_sync_no_later_one_makes_the_write_durable(machine: Machine) -> None:
    machine.set(sync_fail_ppm=0)
    script = f"""
import mmap, struct
control = open({str(machine.data.with_suffix(".control"))!r}, "r+b")
slots = mmap.mmap(control.fileno(), 4096)
os.pwrite(f, b"b" * 4096, 0)
struct.pack_into("=q", slots, 16, {ALWAYS_PPM})
assert failure(lambda: os.fsync(f)) == "EIO"
struct.pack_into("=q", slots, 16, 0)
os.fsync(f)
"""
    found = outcomes(machine, script)
    assert b"aa" in found
    assert machine.count("sync_failures") == 1


def test_names_that_were_not_synced_go_back(machine: Machine) -> None:
    script = """
for name in ("one", "two", "three"): os.close(os.open(path(name), os.O_RDWR | os.O_CREAT))
os.rename(path("f"), path("g")); os.unlink(path("one"))
"""
    run(machine, script)
    report = UndoLog(machine.undo).cut_power(machine.data, _AllUndone(1))
    assert sorted(os.listdir(machine.data)) == ["f"]
    assert report.names == 5


def test_names_that_were_synced_stay(machine: Machine) -> None:
    run(machine, "os.rename(path('f'), path('g')); sync_folder()")
    UndoLog(machine.undo).cut_power(machine.data, _AllUndone(1))
    assert sorted(os.listdir(machine.data)) == ["g"]


class _AllUndone(Random):
    """The worst luck for names: every change since the last sync is gone."""

    def randint(self, a: int, b: int) -> int:
        return a


def test_a_full_disk_refuses_what_needs_room_and_nothing_else(machine: Machine) -> None:
    machine.set(is_full=1)
    machine.data.mkdir()
    (machine.data / "f").write_bytes(bytes(8192))
    script = """
print(failure(lambda: os.pwrite(f, b"x", 0)), failure(lambda: os.pwrite(f, b"x", 8192)),
      failure(lambda: os.open(path("new"), os.O_CREAT | os.O_RDWR)), failure(lambda: os.posix_fallocate(f, 0, 10000)))
"""
    assert run(machine, script) == "None ENOSPC ENOSPC ENOSPC"
    machine.heal_disk()
    assert run(machine, "print(failure(lambda: os.pwrite(f, b'x', 8192)))") == "None"


def test_reads_fail_and_clocks_jump_by_command(machine: Machine) -> None:
    machine.set(clock_ns=-86_400 * 10**9, read_fail_ppm=ALWAYS_PPM)
    script = """
real = os.stat(path("f")).st_mtime
print(round((time.time() - real) / 86400), time.monotonic() > 0, failure(lambda: os.pread(f, 1, 0)))
"""
    assert run(machine, script) == "-1 True EIO"
    assert machine.count("read_failures") == 1


def test_reads_of_one_file_hang_by_command_and_what_must_not_wait_does_not(machine: Machine) -> None:
    machine.hang_reads("groups/*/b.seg", 300)
    script = """
os.makedirs(path("groups/7"), exist_ok=True)
def seconds(call):
    began = time.monotonic(); call(); return time.monotonic() - began
def hangs(name):
    g = os.open(path(name), os.O_RDWR | os.O_CREAT); os.pwrite(g, b"a" * 4096, 0)
    calls = (lambda: os.pread(g, 10, 0), lambda: os.preadv(g, [bytearray(10)], 0))
    return [seconds(call) >= 0.3 for call in calls], failure(lambda: os.preadv(g, [bytearray(10)], 0, os.RWF_NOWAIT))
print(hangs("groups/7/a.seg"), hangs("groups/7/b.seg"))
"""
    assert run(machine, script) == "([False, False], None) ([True, True], 'EAGAIN')"
    assert machine.count("hangs") == 2
    machine.heal_disk()
    assert run(machine, script) == "([False, False], None) ([False, False], None)"
