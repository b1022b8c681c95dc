"""No circle of imports: neither between files, nor between the parts of any folder."""

import pytest

from tests.tidy.circles import circle, file_graph, folder_graph
from tests.tidy.tree import package_modules, parse

MODULES = [module for module in package_modules() if module.path.startswith("src/flotilla/")]
PACKAGES = frozenset(".".join(filter(None, ("flotilla", module.name))) for module in MODULES if module.is_package)
FILES = file_graph(MODULES, PACKAGES | {"flotilla.codec.generated"})


def test_files_import_each_other_in_one_direction() -> None:
    assert circle(FILES) == []


@pytest.mark.parametrize("folder", sorted(PACKAGES))
def test_parts_of_a_folder_import_each_other_in_one_direction(folder: str) -> None:
    assert circle(folder_graph(folder, FILES)) == []


# The checks can fail.


def graph(**texts: str) -> dict[str, frozenset[str]]:
    modules = [parse(text, f"src/flotilla/{name.replace('__', '/')}.py") for name, text in texts.items()]
    return dict(file_graph(modules, frozenset({"flotilla", "flotilla.a", "flotilla.b"})))


def test_a_circle_of_two_files_is_found() -> None:
    assert circle(graph(a__x="from flotilla.a import y", a__y="import flotilla.a.x")) == [
        "flotilla.a.x",
        "flotilla.a.y",
        "flotilla.a.x",
    ]


def test_an_import_for_types_or_inside_a_function_counts() -> None:
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from flotilla.a.y import Y"
    assert circle(graph(a__x=typed, a__y="def f():\n    from flotilla.a.x import X"))


def test_a_circle_of_folders_is_found_where_files_have_none() -> None:
    files = graph(
        a__x="from flotilla.b import y",
        b__y="import struct",
        b__z="from flotilla.a import w",
        a__w="import struct",
    )
    assert circle(files) == []
    assert circle(folder_graph("flotilla", files)) == ["a", "b", "a"]


def test_a_tree_without_a_circle_passes() -> None:
    assert circle(graph(a__x="from flotilla.b.y import Y", b__y="import struct")) == []
