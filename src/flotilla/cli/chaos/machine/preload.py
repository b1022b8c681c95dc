"""The `LD_PRELOAD` library under a broker, and the control file that says what goes wrong.

`preload.c` is compiled when a run needs it. Without a compiler, faults of disks, clocks and power are not available,
and `missing_compiler` says why.
"""

import mmap
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final

SOURCE = Path(__file__).with_name("preload.c")
_COMPILERS = ("gcc", "cc", "clang")
_CONTROL_BYTES: Final = 4096
_SLOT = struct.Struct("=q")
#: The slots of the control file; the same order as in preload.c. The first is the clock's.
_SLOTS = (
    "clock_ns", "sync_delay_us", "sync_fail_ppm", "is_full", "read_fail_ppm", "read_delay_us", "is_lying", "hang_ms",
)  # fmt: skip
_COUNTERS = ("syncs", "sync_failures", "writes_refused", "read_failures", "writes", "hangs")
_FIRST_COUNTER = 16
#: Where the pattern of files that hang stands, with a zero behind it.
_HANG_AT: Final = 2048
#: Faults that always strike.
ALWAYS_PPM = 1_000_000


def missing_compiler() -> str:
    """Why the library cannot be built here; empty: it can."""
    if sys.platform != "linux":
        return "faults of disks, clocks and power need Linux"
    return "" if _compiler() else f"faults of disks, clocks and power need a C compiler: {', '.join(_COMPILERS)}"


def build_preload(folder: Path) -> Path:
    """Compiles the library into this folder."""
    compiler = _compiler()
    assert compiler is not None
    library = folder / "preload.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl", "-lpthread"]
    subprocess.run(command, check=True, capture_output=True)
    return library


def _compiler() -> str | None:
    return next(filter(None, map(shutil.which, _COMPILERS)), None)


class Machine:
    """The machine under one broker: its clock, disk and power."""

    def __init__(self, library: Path, data: Path) -> None:
        self._library = library
        self.data = data
        self.undo = data.with_suffix(".undo")
        self.undo.mkdir(exist_ok=True)
        control = data.with_suffix(".control")
        control.write_bytes(bytes(_CONTROL_BYTES))
        self._control = control
        with control.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _CONTROL_BYTES)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to run on this machine."""
        return {
            "LD_PRELOAD": str(self._library),
            "CHAOS_ROOT": os.fspath(self.data),
            "CHAOS_CONTROL": os.fspath(self._control),
            "CHAOS_UNDO": os.fspath(self.undo),
        }

    def set(self, **slots: int) -> None:
        """Sets faults by the names of the slots, from now on."""
        for name, value in slots.items():
            _SLOT.pack_into(self._memory, _SLOTS.index(name) * _SLOT.size, value)

    def hang_reads(self, pattern: str, hang_ms: int) -> None:
        """From now on a read of a file below the data directory that matches takes so long, or until `heal_disk`.

        A read that must not wait finds nothing in the cache. "*" matches "/" too.
        """
        encoded = os.fsencode(pattern)
        assert len(encoded) < _CONTROL_BYTES - _HANG_AT
        self.set(hang_ms=0)
        self._memory[_HANG_AT:] = encoded.ljust(_CONTROL_BYTES - _HANG_AT, b"\0")
        self.set(hang_ms=hang_ms)

    def heal_disk(self) -> None:
        """Ends all faults but those of the clock."""
        self.set(**dict.fromkeys(_SLOTS[1:], 0))

    def count(self, name: str) -> int:
        """How often the library has counted this."""
        at = (_FIRST_COUNTER + _COUNTERS.index(name)) * _SLOT.size
        found: int = _SLOT.unpack_from(self._memory, at)[0]
        return found
