"""The repository as the tidy tests see it: its files, and its modules with their syntax trees."""

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "flotilla"
GENERATED = PACKAGE / "codec" / "generated"

#: What is made and not kept.
_IGNORED = {
    ".git",
    ".hypothesis",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".venv",
    "__pycache__",
    "build",
    "dist",
    "flotilla-cluster",
    "flotilla-data",
    "flotilla-pipelines",
    "node_modules",
    "results",
    "target",
}
_TEXT = {
    "",
    ".cfg",
    ".ini",
    ".java",
    ".json",
    ".md",
    ".proto",
    ".py",
    ".pyi",
    ".sh",
    ".toml",
    ".txt",
    ".xml",
    ".yaml",
    ".yml",
}


@dataclass(frozen=True, slots=True)
class Module:
    """One Python file, parsed."""

    #: Relative to the root, with slashes: "src/flotilla/raft/node.py".
    path: str
    #: Dotted below the package, "" for its root: "raft.node". Empty for files outside of it.
    name: str
    text: str
    tree: ast.Module
    #: All of the tree. Walking takes longer than parsing, and many a test looks at every node.
    nodes: tuple[ast.AST, ...]
    is_package: bool = False

    @property
    def folder(self) -> str:
        """The layer it belongs to: the first part of its name."""
        return self.name.partition(".")[0]


def parse(text: str, path: str) -> Module:
    parts = Path(path).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    below = parts[2:] if parts[:2] == ("src", "flotilla") else ()
    if parts == ("src", "pyspark_flotilla"):
        # Outside of the package only because Spark looks for its name there.
        below = ("spark", "pyspark_flotilla")
    if is_package:
        below = below[:-1]
    tree = ast.parse(text, path)
    return Module(path, ".".join(below), text, tree, tuple(ast.walk(tree)), is_package)


def files(*tops: str) -> Iterator[Path]:
    """Every kept file below the given tops of the root (default: all), in order."""
    for top in tops or sorted(path.name for path in ROOT.iterdir()):
        yield from _walk(ROOT / top)


def _walk(path: Path) -> Iterator[Path]:
    if path.name in _IGNORED or path.name.endswith(".egg-info") or path.is_symlink():
        return
    if path.is_dir():
        for child in sorted(path.iterdir()):
            yield from _walk(child)
    elif path.exists():
        yield path


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def texts() -> dict[str, str]:
    """Every kept text file by its path."""
    return {
        relative(path): path.read_text("utf-8")
        for path in files()
        if path.suffix in _TEXT and GENERATED not in path.parents
    }


@cache
def modules(*tops: str) -> tuple[Module, ...]:
    """Every Python file below the given tops, without generated code."""
    with _kept_for_good():
        return tuple(
            parse(path.read_text("utf-8"), relative(path))
            for path in files(*tops)
            if path.suffix == ".py" and GENERATED not in path.parents
        )


@contextmanager
def _kept_for_good() -> Iterator[None]:
    """What is made inside lives until the process ends, so the collector need not look at it, neither now nor then.

    The trees are more than a million objects, and looking at them takes several times as long as parsing does.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def package_modules() -> tuple[Module, ...]:
    return modules("src")


def all_modules() -> tuple[Module, ...]:
    return tuple(module for top in ("bench", "src", "tests") if (ROOT / top).exists() for module in modules(top))
