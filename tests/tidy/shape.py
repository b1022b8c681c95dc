"""The shape of source: sizes, names, docstrings, words that must not stay."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from tests.tidy.tree import Module

FILE_LINES_MAX = 700
BODY_LINES_MAX = 70
#: A folder is one idea; with more files than this it is several.
FOLDER_FILES_MAX = 22
BANNED_NAMES = ("common", "helper", "helpers", "manager", "misc", "util", "utils")

# Put together here, so that this file does not find itself.
_LEFT_OPEN = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX")) + r")\b")
_MACHINE_PATH = re.compile(r"(?<![\w.:/*-])/(?:" + "|".join(("wo" + "rk", "ro" + "ot", "ho" + "me")) + r")/")
_REGISTRIES = re.compile(
    "|".join(
        re.escape(host)
        for host in (
            "pypi" + ".org",
            "python" + "hosted.org",
            "registry." + "npmjs",
            "maven" + ".org",
            "crates" + ".io",
            "proxy.golang" + ".org",
        )
    )
)


def size_violations(module: Module) -> list[str]:
    lines = module.text.count("\n")
    found = [f"{module.path}: {lines} lines, at most {FILE_LINES_MAX}"] if lines > FILE_LINES_MAX else []
    for function, length in bodies(module):
        if length > BODY_LINES_MAX:
            found.append(f"{module.path}: {function} has {length} lines, at most {BODY_LINES_MAX}")
    return found


def bodies(module: Module) -> Iterator[tuple[str, int]]:
    """Every function with the lines of its body, without the docstring."""
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            yield node.name, (node.end_lineno or 0) - body[0].lineno + 1 if body else 0


def name_violations(path: str) -> list[str]:
    stems = [PurePosixPath(part).stem for part in PurePosixPath(path).parts]
    return [f"{path}: nothing is called {stem}" for stem in stems if stem in BANNED_NAMES]


def folder_violations(paths: Iterable[str]) -> list[str]:
    counts = Counter(str(PurePosixPath(path).parent) for path in paths)
    return [
        f"{folder}: {count} files, at most {FOLDER_FILES_MAX}"
        for folder, count in counts.items()
        if count > FOLDER_FILES_MAX
    ]


def docstring_violations(module: Module) -> list[str]:
    if not module.tree.body and not module.name:
        return []  # An empty file that only makes a folder of tests importable.
    return [] if ast.get_docstring(module.tree) else [f"{module.path}: no module docstring"]


def text_violations(path: str, text: str) -> list[str]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, fault in (
            (_LEFT_OPEN, "left open"),
            (_MACHINE_PATH, "a path of one machine"),
            (_REGISTRIES, "the name of a registry"),
        ):
            if pattern.search(line):
                found.append(f"{path}:{number}: {fault}: {line.strip()[:80]}")
    return found
