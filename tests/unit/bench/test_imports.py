"""Every benchmark can be imported: renames in the package do not leave them behind."""

import importlib
import pkgutil

import pytest

import bench

NAMES = [found.name for found in pkgutil.walk_packages(bench.__path__, "bench.") if "__main__" not in found.name]


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_can_be_imported(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The clients of peers and the charts are extras.
        if (error.name or "").split(".")[0] in ("flotilla", "bench"):
            raise
        pytest.skip(str(error))


def test_the_areas_are_found() -> None:
    from bench.__main__ import AREAS, USUAL

    assert set(USUAL) <= AREAS.keys()
