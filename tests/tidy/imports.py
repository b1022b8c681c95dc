"""The table of layers, and the check of one module against it.

Imports go downward only. THINK before adding a name to a row: a new arrow joins two parts that could be understood
alone.
"""

import ast
import sys
from collections.abc import Iterator
from typing import NamedTuple

from tests.tidy.tree import Module

_PURE = ("types", "raft", "partition", "metadata")
_CORE = (*_PURE, "codec", "replica")
_ADAPTERS = ("storage", "peers", "runtime")
#: What a client reads and writes; the brokers' side of the codec is not for it.
_CLIENT_CODEC = ("codec.batch", "codec.client", "codec.frames")

#: Parts of the broker that decide and do nothing else: the simulator runs them as they are.
_REPLAYED_BROKER = (
    "broker.cluster_clock",
    "broker.log_upkeep",
    "broker.queue.settlement_log",
    "broker.retention",
)

#: For each folder (or module) of the package, what of the package it may import beside itself.
#: The most particular row decides. A row allows a name and everything below it.
ALLOWED: dict[str, tuple[str, ...]] = {
    # The public face: what users import from `flotilla` itself.
    "": ("types", "client"),
    # L0
    "types": (),
    # L1: three pure cores that never meet.
    "raft": ("types",),
    "partition": ("types",),
    "metadata": ("types",),
    # L2
    "codec": _PURE,
    "replica": ("types", "raft"),
    # L3: adapters see each other through ports, never directly.
    "storage": ("types", "raft", "codec", "replica"),
    "peers": ("types", "raft", "codec", "replica"),
    "runtime": ("types", "raft", "codec", "replica"),
    # L4
    "broker": (*_CORE, "runtime"),
    # L5
    "client": ("types", *_CLIENT_CODEC),
    "gateway": ("types", *_CLIENT_CODEC, "client"),
    "frontends": ("types", "codec", "broker", "client", "gateway"),
    "frontends.http.http1": (),
    # L6
    "spark": ("types", "client", "codec.batch"),
    "cli": (*_CORE, *_ADAPTERS, "broker", "frontends", "client", "gateway", "server", "spark"),
    "cli.sim": (*_CORE, *_ADAPTERS, "sim"),
    # Beside the layers: the simulator runs the real core, storage, driver and group commit on simulated devices.
    "sim": (*_CORE, "storage", "runtime.driver", *_REPLAYED_BROKER),
    # Composition roots, where everything meets.
    "node": (*_CORE, *_ADAPTERS),
    "cluster_entry": (*_CORE, *_ADAPTERS, "node", "broker", "client"),
    "server": (*_CORE, *_ADAPTERS, "node", "cluster_entry", "broker", "frontends", "client", "gateway"),
    "testing": (*_CORE, *_ADAPTERS, "broker", "client", "server"),
}

#: Rows whose own part of the package is their folder alone: it could be taken out and used elsewhere.
APART = ("frontends.http.http1",)

#: The folders whose private modules (`_name`) only these folders may import.
PRIVATE: dict[str, tuple[str, ...]] = {"client": ("client", "gateway")}

#: Foreign packages and the folders that may import them.
FOREIGN: dict[str, tuple[str, ...]] = {
    "crc32c": ("codec", "storage", "client"),
    "google": ("codec",),
    "grpc": ("frontends",),
    "grpc_health": ("frontends",),
    "grpc_reflection": ("frontends",),
    "lz4": ("codec",),
    "numpy": ("spark",),
    "pyarrow": ("spark",),
    "pyspark": ("spark",),
    "rich": ("cli",),
    "typer": ("cli",),
    "uvloop": ("runtime", "server", "cli", "client"),
    "zstandard": ("codec",),
}

#: Modules of the standard library without a clock, randomness, file, socket, thread or log.
#: A module that is not listed counts as outside, also a new one.
PURE_MODULES = (
    "abc",
    "array",
    "bisect",
    "collections",
    "contextlib",
    "dataclasses",
    "difflib",
    "enum",
    "functools",
    "hashlib",
    "heapq",
    "ipaddress",
    "itertools",
    "operator",
    "re",
    "struct",
    "types",
    "typing",
    "zlib",
)
#: Allowed names of other modules: a type that the caller passes in, facts that never change.
#: A module that is listed may be imported for its listed names.
ALLOWED_NAMES = (
    "random.Random",
    "sys",
    "sys.byteorder",
    "sys.intern",
    "traceback",
    "traceback.format_exception",
)
#: Built-in functions that reach outside, or differ from one process to the next.
OUTSIDE_CALLS = ("breakpoint", "exec", "eval", "hash", "id", "input", "open", "print")
#: Calls that read a clock, however they were imported.
CLOCKS = ("date.today", "datetime.now", "datetime.utcnow")

#: Code that replays from a seed: the simulator and all that it may import. Disk, clock and randomness are passed in.
REPLAYED = ("sim", *ALLOWED["sim"])
#: Exceptions, which are the outside: the real disk, and the processes of a swarm.
OUTSIDE_MODULES = ("storage.posix", "storage.system_calls", "sim.swarm")


class Import(NamedTuple):
    target: str
    line: int


def imports(module: Module, packages: frozenset[str]) -> Iterator[Import]:
    """Full dotted names of everything a module imports, wherever in the file it does.

    A name taken from a package counts as the module of that name, one from a module as that module,
    unless the module reaches outside: then the single name matters.
    """
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            for alias in node.names:
                is_named_apart = base in packages or _reaches_outside(base)
                yield Import(f"{base}.{alias.name}" if is_named_apart else base, node.lineno)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    here = ["flotilla", *filter(None, module.name.split("."))]
    up = node.level - 1 if module.is_package else node.level
    return ".".join([*here[: len(here) - up], *filter(None, [node.module])])


def layer_violations(module: Module, packages: frozenset[str]) -> list[str]:
    """Imports of a package module that its layer does not allow."""
    row = _row(module.name)
    if row is None:
        return [f"{module.path}: {module.folder} has no row in the table of layers"]
    found = []
    for target, line in imports(module, packages):
        top, _, below = target.partition(".")
        if top == "flotilla":
            if not _is_allowed(below, row):
                found.append(f"{module.path}:{line}: {row or 'the root'} must not import {target}")
            elif _is_private(below) and module.folder not in PRIVATE[below.partition(".")[0]]:
                found.append(f"{module.path}:{line}: {target} is private")
        elif top not in sys.stdlib_module_names and module.folder not in FOREIGN.get(top, ()):
            found.append(f"{module.path}:{line}: {module.folder} must not import {top}")
        if target.startswith("flotilla.codec.generated") and module.folder != "codec":
            found.append(f"{module.path}:{line}: only codec imports generated code")
    return found


def _is_private(target: str) -> bool:
    top, *below = target.split(".")
    return top in PRIVATE and any(part.startswith("_") for part in below)


def _row(name: str) -> str | None:
    """The most particular row for a module."""
    if not name:
        return ""
    while name and name not in ALLOWED:
        name = name.rpartition(".")[0]
    return name or None


def _is_allowed(target: str, row: str) -> bool:
    if not target:
        return True
    # The verbs of the command are put together in one place; each row of cli is cli itself.
    own = row if row in APART else row.partition(".")[0]
    return _is_among(target, (own, *ALLOWED[row]))


def _is_among(name: str, tops: tuple[str, ...]) -> bool:
    return any(name == top or name.startswith(top + ".") for top in tops)


def is_replayed(module: Module) -> bool:
    return _is_among(module.name, REPLAYED)


def _reaches_outside(name: str) -> bool:
    top = name.partition(".")[0]
    return top in sys.stdlib_module_names and top not in PURE_MODULES


def purity_violations(module: Module, packages: frozenset[str]) -> list[str]:
    """Uses of the outside in a module that must be pure."""
    found = []
    for target, line in imports(module, packages):
        if _reaches_outside(target) and target not in ALLOWED_NAMES:
            found.append(f"{module.path}:{line}: imports {target}")
    for node in module.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in OUTSIDE_CALLS:
            found.append(f"{module.path}:{node.lineno}: calls {node.func.id}()")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used = f"{node.value.id}.{node.attr}"
            if used in CLOCKS or (node.value.id in ALLOWED_NAMES and used not in ALLOWED_NAMES):
                found.append(f"{module.path}:{node.lineno}: uses {used}")
    return found


def order_violations(module: Module) -> list[str]:
    """Loops straight over a set: their order may differ from one process to the next."""
    found = []
    for node in module.nodes:
        if isinstance(node, ast.For | ast.comprehension) and _is_set(node.iter):
            found.append(f"{module.path}:{node.iter.lineno}: iterates over a set; sort it")
    return found


def _is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
    return isinstance(node, ast.Set | ast.SetComp)
