"""CRC-32C, by the extension module of the package `crc32c`.

The package's own `__init__` also loads its command line, argparse and the metadata of all installed packages: 25 ms of
every import of the client and of every command. So the extension is loaded without it, where it has its known name.
"""

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_EXTENSION = "crc32c._crc32c"


def _load() -> Callable[..., int]:
    package = PathFinder.find_spec("crc32c")
    found = package and PathFinder.find_spec(_EXTENSION, package.submodule_search_locations)
    if "crc32c" in sys.modules or not found or not found.loader:
        from crc32c import crc32c as loaded

        return loaded
    extension = module_from_spec(found)
    found.loader.exec_module(extension)
    function: Callable[..., int] = extension.crc32c
    return function


#: Takes bytes, or anything with a buffer, and the checksum of what precedes them.
crc32c: Callable[..., int] = _load()
