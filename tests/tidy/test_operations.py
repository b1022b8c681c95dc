"""An operation is stated once: a class with its facts, a method of its name, a row of the codec, and its callers."""

import re
from pathlib import Path

from flotilla.types.operations import OPERATIONS
from tests.tidy.tree import ROOT, package_modules

FILES_MAX = 5

#: What an operation does, and homonyms there: commands of the log, messages between replicas.
_LOGIC = ("types/operations/", "broker/", "metadata/", "partition/", "raft/", "codec/peer/", "sim/")

_DATA_PATH = "the data path, with special cases for speed in every layer"
_READ_BY_ALL = "readers, consumers and pages each look this up for themselves"
#: Operations in more files than that, and why.
EXCEPTIONS = {
    "Produce": _DATA_PATH,
    "Fetch": _DATA_PATH,
    "Poll": _DATA_PATH,
    "Subscribe": _DATA_PATH,
    "Settle": _DATA_PATH,
    "Extend": _DATA_PATH,
    "Stage": _DATA_PATH,
    "LeaveQueue": "a member leaves over every endpoint, and its connection forgets it",
    "GetMetadata": _READ_BY_ALL,
    "ListOffsets": _READ_BY_ALL,
    "CommitOffset": _READ_BY_ALL,
    "ExplainMessage": "two views over HTTP: a message of a group, and a task",
}


def _files_with(name: str) -> list[str]:
    word = re.compile(rf"\b{name}\b")
    paths = {module.path.removeprefix("src/flotilla/"): module.text for module in package_modules()}
    return [path for path, text in paths.items() if not path.startswith(_LOGIC) and word.search(text)]


def test_an_operation_is_named_in_a_handful_of_files() -> None:
    crowded = {
        kind.__name__: files for kind in OPERATIONS.values() if len(files := _files_with(kind.__name__)) > FILES_MAX
    }
    assert {name: files for name, files in crowded.items() if name not in EXCEPTIONS} == {}
    assert EXCEPTIONS.keys() <= crowded.keys(), "an exception that is none any more"


def test_the_recipe_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    recipe = text.partition("## Adding an operation")[2].partition("\n## ")[0]
    paths = re.findall(r"`((?:src|tests|proto)/[\w/.]+)`", recipe)
    assert len(paths) >= 5
    assert [path for path in paths if not Path(ROOT / path).exists()] == []
