"""A broker and its client on a system with what macOS has: none of Linux's calls, and F_FULLFSYNC to sync a file."""

import subprocess
import sys

#: Takes away what macOS does not have before anything is imported, and counts full syncs.
MACOS = """
import builtins, fcntl, os, time

for name in ("posix_fallocate", "fdatasync", "posix_fadvise", "RWF_DSYNC", "RWF_NOWAIT", "sched_getaffinity"):
    delattr(os, name)
del time.CLOCK_BOOTTIME
linux_fcntl, linux_open, linux_listdir = fcntl.fcntl, builtins.open, os.listdir
full_syncs = 0

def macos_fcntl(descriptor, command, *more):
    global full_syncs
    if command != 51:
        return linux_fcntl(descriptor, command, *more)
    full_syncs += 1
    os.fsync(descriptor)
    return 0

def without_proc(call):
    def called(path, *more, **named):
        if str(path).startswith("/proc"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return call(path, *more, **named)
    return called

fcntl.F_FULLFSYNC, fcntl.fcntl = 51, macos_fcntl
builtins.open, os.listdir = without_proc(linux_open), without_proc(linux_listdir)
"""
USE = """
from flotilla.testing import LocalBroker

with LocalBroker() as broker, broker.client() as client:
    client.create_topic("orders")
    before = full_syncs
    assert client.produce("orders", b"a").offset == 0
    assert full_syncs > before, "an acknowledged message is on the disk, beyond its cache"
    with client.queue("orders", group="mail") as consumer:
        message = next(iter(consumer))
        assert message.payload == b"a"
        message.ack()
    assert client.admin.describe_node().disk_total_bytes > 0
from pathlib import Path
from flotilla.cli.bench.probes import disk_durations

before = full_syncs
assert len(disk_durations(Path("."), 512, 2)) == 2
assert full_syncs > before, "the probe of a disk measures what a broker does"
print("fine")
"""


def test_a_broker_its_client_and_the_probe_of_its_disk_work_on_macos(tmp_path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", MACOS + USE], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.stdout, ended.returncode) == ("fine\n", 0), ended.stderr
