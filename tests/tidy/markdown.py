"""Markdown: one title per file, links that lead somewhere."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from posixpath import normpath

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#{1,6}) +(.+?) *$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_TABLE_ROW = re.compile(r"^\|(.+)\|$", re.MULTILINE)


def prose(text: str) -> str:
    """Without code blocks."""
    return _FENCE.sub("", text)


def title_violations(path: str, text: str) -> list[str]:
    titles = [title for level, title in _HEADING.findall(prose(text)) if level == "#"]
    return [] if len(titles) == 1 else [f"{path}: {len(titles)} titles, expected one"]


def link_violations(path: str, text: str, files: Mapping[str, str]) -> list[str]:
    """Links to files and headings that are not there. Addresses on the network are not followed."""
    found = []
    for target in _LINK.findall(prose(text)):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        there = normpath(str(PurePosixPath(path).parent / name)) if name else path
        is_folder = any(file.startswith(there.rstrip("/") + "/") for file in files)
        if there not in files and not is_folder:
            found.append(f"{path}: {target} is not there")
        elif anchor and anchor not in anchors(files.get(there, "")):
            found.append(f"{path}: {target} has no such heading")
    return found


def anchors(text: str) -> set[str]:
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for _, title in _HEADING.findall(prose(text))
    }


def table_rows(text: str) -> list[list[str]]:
    """Cells of all table rows, without backticks and without rules between head and body."""
    rows = [[cell.strip().strip("`") for cell in row.split("|")] for row in _TABLE_ROW.findall(prose(text))]
    return [row for row in rows if not all(set(cell) <= {"-", ":", " "} for cell in row)]
