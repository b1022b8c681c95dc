"""Files and functions stay small, say what they are for, and hold nothing that was meant to go."""

import pytest

from tests.tidy.shape import (
    BODY_LINES_MAX,
    FILE_LINES_MAX,
    FOLDER_FILES_MAX,
    bodies,
    docstring_violations,
    folder_violations,
    name_violations,
    size_violations,
    text_violations,
)
from tests.tidy.tree import Module, all_modules, parse, texts


def test_files_and_functions_are_small() -> None:
    assert [fault for module in all_modules() for fault in size_violations(module)] == []


def test_folders_are_small() -> None:
    """Tests of one part stay together, however many they are."""
    paths = [module.path for module in all_modules() if not module.path.startswith("tests/")]
    assert folder_violations(paths) == []


def test_every_module_says_what_it_is_for() -> None:
    assert [fault for module in all_modules() for fault in docstring_violations(module)] == []


def test_names_mean_something() -> None:
    assert [fault for module in all_modules() for fault in name_violations(module.path)] == []


def test_nothing_was_left_open_and_no_machine_is_named() -> None:
    assert [fault for path, text in texts().items() for fault in text_violations(path, text)] == []


def test_the_tree_was_found() -> None:
    """An empty walk would let everything pass."""
    paths = {module.path for module in all_modules()}
    assert {"src/flotilla/types/errors.py", "tests/tidy/test_shape.py"} <= paths
    assert {"README.md", "Makefile", "proto/peer.proto"} <= texts().keys()
    assert not any("generated/peer_pb2" in path or ".venv" in path for path in texts())


# The checks can fail.


def source(text: str, path: str = "src/flotilla/raft/node.py") -> Module:
    return parse(text, path)


def function(lines: int, docstring: str = "") -> str:
    return "def f():\n" + docstring + "    x = 1\n" * lines


def test_a_long_file_is_found() -> None:
    assert size_violations(source("x = 1\n" * FILE_LINES_MAX)) == []
    assert size_violations(source("x = 1\n" * (FILE_LINES_MAX + 1)))


def test_a_crowded_folder_is_found() -> None:
    paths = [f"src/flotilla/raft/file_{number}.py" for number in range(FOLDER_FILES_MAX)]
    assert folder_violations([*paths, "src/flotilla/types/one.py"]) == []
    assert folder_violations([*paths, "src/flotilla/raft/one_more.py"])


def test_a_long_function_is_found_but_its_docstring_is_free() -> None:
    assert size_violations(source(function(BODY_LINES_MAX))) == []
    assert size_violations(source(function(BODY_LINES_MAX + 1)))
    assert size_violations(source(function(BODY_LINES_MAX, '    """One.\n\n    Two.\n    """\n'))) == []
    assert list(bodies(source(function(3, '    """One."""\n')))) == [("f", 3)]


def test_a_long_method_inside_a_class_is_found() -> None:
    text = "class A:\n    async def f(self):\n" + "        x = 1\n" * (BODY_LINES_MAX + 1)
    assert size_violations(source(text))


@pytest.mark.parametrize(
    "path", ["src/flotilla/utils.py", "src/flotilla/raft/helpers.py", "tests/common/test_x.py", "src/manager/a.py"]
)
def test_a_banned_name_is_found(path: str) -> None:
    assert name_violations(path)


def test_a_missing_docstring_is_found() -> None:
    assert docstring_violations(source("x = 1\n"))
    assert docstring_violations(source("", "src/flotilla/raft/__init__.py"))
    assert docstring_violations(source('"""A sentence."""\n')) == []
    assert docstring_violations(source("", "tests/unit/__init__.py")) == []


@pytest.mark.parametrize(
    "line",
    [
        "# TO" + "DO: later",
        "x = 1  # FIX" + "ME",
        "X" + "XX",
        "see /ho" + "me/someone/file",
        "cd /wo" + "rk/main",
        "'/ro" + "ot/.cache'",
        "https://pypi" + ".org/simple",
    ],
)
def test_a_bad_line_is_found(line: str) -> None:
    assert text_violations("a.py", f"fine\n{line}\n") != []


@pytest.mark.parametrize("line", ["total to do", "docs/ho" + "me/index", "https://example.org/ho" + "me/x", "toDo()"])
def test_a_good_line_passes(line: str) -> None:
    assert text_violations("a.py", line) == []
