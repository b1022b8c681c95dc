"""Circles of imports: between files, and between the files and folders that stand side by side in a folder.

Every import counts, inside functions and for types as well: two modules that name each other can only be understood
together, whenever the interpreter loads them.
"""

from collections.abc import Iterable, Mapping

from tests.tidy.imports import imports
from tests.tidy.tree import Module

Graph = Mapping[str, frozenset[str]]


def file_graph(modules: Iterable[Module], packages: frozenset[str]) -> Graph:
    """For each module, the modules it imports, by their dotted names."""
    named = {_full(module): module for module in modules}
    return {
        name: frozenset(_owner(target, named) for target, _ in imports(module, packages)) - {name, ""}
        for name, module in named.items()
    }


def folder_graph(folder: str, files: Graph) -> Graph:
    """The children of a folder, and which of its other children each one imports."""
    prefix = f"{folder}."
    found: dict[str, set[str]] = {}
    for name, targets in files.items():
        if name.startswith(prefix):
            child = name[len(prefix) :].partition(".")[0]
            below = {target[len(prefix) :].partition(".")[0] for target in targets if target.startswith(prefix)}
            found.setdefault(child, set()).update(below - {child})
    return {child: frozenset(targets) for child, targets in found.items()}


def circle(graph: Graph) -> list[str]:
    """One circle of the graph, its first name repeated at the end. Empty: there is none."""
    finished: set[str] = set()
    for start in sorted(graph):
        found = _search(start, graph, [], finished)
        if found:
            return found
    return []


def _search(name: str, graph: Graph, path: list[str], finished: set[str]) -> list[str]:
    if name in path:
        return [*path[path.index(name) :], name]
    if name in finished:
        return []
    path.append(name)
    for target in sorted(graph.get(name, ())):
        found = _search(target, graph, path, finished)
        if found:
            return found
    path.pop()
    finished.add(name)
    return []


def _full(module: Module) -> str:
    return ".".join(filter(None, ("flotilla", module.name)))


def _owner(target: str, named: Mapping[str, Module]) -> str:
    """The module that a dotted name belongs to. Empty: none of the package."""
    while target and target not in named:
        target = target.rpartition(".")[0]
    return target
