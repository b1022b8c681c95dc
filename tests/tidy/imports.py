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
_ADAPTERS = ("machine", "storage", "peers", "runtime")
#: What only some installations have.
_EDGES = ("lake", "spark", "otel")
#: What a client reads and writes; the brokers' side of the codec is not for it.
_CLIENT_CODEC = ("codec.batch", "codec.checksum", "codec.client", "codec.frames")

#: Parts of the runtime without loop, thread and clock: the inner simulator runs them as they are.
_REPLAYED_RUNTIME = ("runtime.driver", "runtime.driver_ports", "runtime.hosted_replicas")

#: For each folder (or module) of the package, what of the package it may import beside itself.
#: The most particular row decides. A row allows a name and everything below it.
ALLOWED: dict[str, tuple[str, ...]] = {
    # The public face: what users import from `flotilla` itself.
    "": ("types", "client"),
    # L0
    "types": (),
    # The machine that everything but the pure cores runs on; the simulator has one of its own.
    "machine": (),
    # Certificates, encryption and log-ins, for all that has connections.
    "security": ("types", "machine"),
    # L1: three pure cores that never meet.
    "raft": ("types",),
    "partition": ("types",),
    "metadata": ("types",),
    # L2
    "codec": _PURE,
    "replica": ("types", "raft"),
    # L3: adapters see each other through ports, never directly.
    "storage": ("types", "raft", "codec", "replica"),
    "peers": ("types", "raft", "codec", "replica", "security"),
    "runtime": ("types", "machine", "raft", "codec", "replica"),
    # L4
    "broker": (*_CORE, "machine", "runtime", "security"),
    # L5
    "client": ("types", "machine", "security", *_CLIENT_CODEC),
    "gateway": ("types", "machine", "security", *_CLIENT_CODEC, "client"),
    "frontends": ("types", "machine", "security", "codec", "broker", "client", "gateway"),
    "frontends.http.http1": (),
    # L6
    "lake": ("types", "security", "client", "codec.batch"),
    "spark": ("types", "security", "client", "codec.batch", "lake"),
    "otel": ("types", "client"),
    "otel.broker": ("types", "runtime", "frontends"),
    "cli": (*_CORE, *_ADAPTERS, "security", "broker", "frontends", "client", "gateway", "server", *_EDGES),
    "cli.sim": (*_CORE, *_ADAPTERS, "sim"),
    # Beside the layers: the inner simulator runs the real core, storage, driver and group commit on simulated devices.
    "sim": (*_CORE, "storage", *_REPLAYED_RUNTIME),
    # The whole product in simulated time.
    "sim.whole": (*_CORE, *_ADAPTERS, "node", "broker", "frontends", "client", "gateway", "server", "sim"),
    # Composition roots, where everything meets.
    "node": (*_CORE, *_ADAPTERS, "security"),
    "cluster_entry": (*_CORE, *_ADAPTERS, "security", "node", "broker", "client"),
    "server": (*_CORE, *_ADAPTERS, "security", "node", "cluster_entry", "broker", "frontends", "client", "gateway"),
    # Fixtures, which users' tests load without an import.
    "pytest_plugin": ("client", "testing"),
    "testing": (*_CORE, *_ADAPTERS, "security", "broker", "client", "server", "sim.whole"),
}

#: Rows whose own part of the package is their folder alone: it could be taken out and used elsewhere.
APART = ("frontends.http.http1",)

#: The folders whose private modules (`_name`) only these folders may import.
PRIVATE: dict[str, tuple[str, ...]] = {"client": ("client", "gateway")}
#: Modules that break or watch private code on purpose.
OPENING = ("sim.whole.mutants", "sim.whole.models")

#: Foreign packages and the folders that may import them.
FOREIGN: dict[str, tuple[str, ...]] = {
    "crc32c": ("codec",),
    "cryptography": ("security",),
    "cronsim": ("broker",),
    "fastavro": ("lake",),
    "google": ("codec", "lake"),
    "grpc": ("frontends",),
    "grpc_health": ("frontends",),
    "grpc_reflection": ("frontends",),
    "jwt": ("security",),
    "lz4": ("codec",),
    "deltalake": ("lake", "cli"),
    "obstore": ("lake",),
    "numpy": ("lake", "spark"),
    "opentelemetry": ("otel",),
    "polars": ("cli",),
    "pyarrow": ("lake", "spark"),
    "pyspark": ("spark",),
    "pytest": ("pytest_plugin",),
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
#: Exceptions, which are the outside: the real disk, the processes of a swarm, and the garbage collector around a run.
#: The others make code when they are loaded, and read nothing that could differ.
OUTSIDE_MODULES = (
    "storage.posix",
    "storage.system_calls",
    "sim.garbage",
    "sim.swarm",
    "sim.whole.swarm",
    "codec.checksum",
    "codec.batch.lz4_blocks",
    "types.slotted",
)


#: What the simulation of the whole product runs.
WHOLE = ("sim.whole", *ALLOWED["sim.whole"])
#: Parts of it that have threads, sockets or a process of their own: the blocking client, bulk transfers for Spark, gRPC
#: with its C core, and the owner of a real process. Runs call some of them: the identity of a folder, the budget of
#: descriptors, the log. `tests/sim/whole/test_real_calls.py` sees that they use nothing of the machine there.
BESIDE_WHOLE = (
    "machine",
    "client._background_run",
    "client._blocking",
    "client._core.loop_thread",
    "client.bulk",
    "client.app",
    "client.client",
    "client.in_process",
    "client.producer._at_exit",
    "client.producer._direct_connection",
    "client.producer._fast_path",
    "client.producer.sync",
    "client.queue.sync",
    "client.reader.sync",
    "client.stream.sync",
    "client.transaction.sync",
    "client.worker",
    "frontends.grpc",
    "runtime.data_dir_identity",
    "runtime.descriptors",
    "runtime.observability.logs",
    "runtime.observability.process_usage",
    "runtime.path_folder",
    "runtime.process",
    "runtime.settings_loader",
    "runtime.start_watch",
)
#: Modules of the standard library that read clocks, draw, start threads or reach the system.
REAL_MACHINE = (
    "_random",
    "_socket",
    "_thread",
    "concurrent",
    "ctypes",
    "fcntl",
    "http",
    "importlib",
    "mmap",
    "multiprocessing",
    "os",
    "posix",
    "queue",
    "random",
    "requests",
    "resource",
    "secrets",
    "select",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "socketserver",
    "sqlite3",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "urllib",
    "uuid",
    "uvloop",
)
#: Built-in functions that reach outside, or differ from one process to the next.
MACHINE_CALLS = ("breakpoint", "exec", "eval", "hash", "id", "input", "open", "__import__")
#: What asyncio has beside the loop that runs. `to_thread` asks that loop, whose threads are simulated.
LOOPS = (
    "asyncio.new_event_loop",
    "asyncio.open_connection",
    "asyncio.run",
    "asyncio.start_server",
    "asyncio.create_subprocess_exec",
    "asyncio.create_subprocess_shell",
)
#: Methods by which a path reads or changes a disk.
PATH_CALLS = ("read_bytes", "read_text", "write_bytes", "write_text", "unlink", "iterdir", "touch", "stat")
#: Names of them that are harmless: types, constants, and a module that is imported for these.
MACHINE_NAMES = (
    "http.HTTPStatus",
    "importlib.resources",
    "importlib.resources.abc.Traversable",
    "random",
    "random.Random",
    "socket",
    "socket.AF_INET",
    "socket.EAI_NONAME",
    "socket.IPPROTO_TCP",
    "socket.SHUT_WR",
    "socket.SOCK_STREAM",
    "socket.AI_PASSIVE",
    "socket.TCP_NODELAY",
    "socket.gaierror",
    "socket.socket",
    "urllib.parse.parse_qsl",
    "urllib.parse.quote",
    "urllib.parse.unquote",
)
#: Modules that read files of the package itself, which are the same in every run.
OWN_FILES = ("frontends.http.console_files", "frontends.http.pages")


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
            elif _is_private(below) and not _may_open(module, below):
                found.append(f"{module.path}:{line}: {target} is private")
        elif top not in sys.stdlib_module_names and module.folder not in FOREIGN.get(top, ()):
            found.append(f"{module.path}:{line}: {module.folder} must not import {top}")
        if target.startswith("flotilla.codec.generated") and module.folder != "codec":
            found.append(f"{module.path}:{line}: only codec imports generated code")
    return found


def _may_open(module: Module, target: str) -> bool:
    """Whether a module may import this private one."""
    return module.folder in PRIVATE[target.partition(".")[0]] or _is_among(module.name, OPENING)


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
    return _is_among(module.name, REPLAYED) and not _is_among(module.name, ("sim.whole",))


def runs_whole(module: Module) -> bool:
    """Whether the simulation of the whole product runs the module, on an event loop and a machine of its own."""
    return _is_among(module.name, WHOLE) and not _is_among(module.name, (*OUTSIDE_MODULES, *BESIDE_WHOLE))


def machine_violations(module: Module, packages: frozenset[str]) -> list[str]:
    """Uses of the real machine where the simulator has another one."""
    found = []
    for target, line in imports(module, packages):
        top = target.partition(".")[0]
        if top in REAL_MACHINE and target not in MACHINE_NAMES:
            found.append(f"{module.path}:{line}: imports {target}; flotilla.machine has what it needs")
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used = f"{node.value.id}.{node.attr}"
            if used in (*CLOCKS, *LOOPS) or (node.value.id in ("socket", "os") and used not in MACHINE_NAMES):
                found.append(f"{module.path}:{node.lineno}: uses {used}")
        elif isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today"):
            used = ast.unparse(node)
            if used.endswith(CLOCKS):
                found.append(f"{module.path}:{node.lineno}: uses {used}")
        if isinstance(node, ast.Call):
            is_own = module.name in OWN_FILES
            found += [f"{module.path}:{node.lineno}: calls {name}" for name in _machine_calls(node, is_own=is_own)]
    return found


def _machine_calls(call: ast.Call, *, is_own: bool) -> Iterator[str]:
    """`is_own`: the module may read files."""
    if isinstance(call.func, ast.Name) and call.func.id in MACHINE_CALLS:
        yield f"{call.func.id}()"
    elif isinstance(call.func, ast.Attribute) and call.func.attr in PATH_CALLS and not is_own:
        yield f".{call.func.attr}()"
    for keyword in call.keywords:
        if keyword.arg == "key" and isinstance(keyword.value, ast.Name) and keyword.value.id in ("id", "hash"):
            yield f"{keyword.value.id}() as a key"


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
