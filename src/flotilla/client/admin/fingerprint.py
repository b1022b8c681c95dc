"""The fingerprint of a failure's reason: the same for reasons that differ only in numbers, ids and quoted texts.

A table of regular expressions that Java and Python read alike turns a reason into its shape. Spark applies them on its
executors; `shape_of` does the same for one text. Tracebacks do not count: moved lines are no new failure.
"""

import re
from hashlib import sha256
from typing import Final

from flotilla.types.dead_letters import TRACED

NAME_LENGTH: Final = 12

#: Patterns and replacements, in order: earlier rows match what later ones would split.
RULES: Final[tuple[tuple[str, str], ...]] = (
    (TRACED + r"[\s\S]*", ""),
    (r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b", "<id>"),
    # Quotes around something, not the apostrophe of a word.
    (r"\"[^\"]*\"|`[^`]*`|(?<!\w)'[^']*'(?!\w)", "<text>"),
    (r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?\b", "<time>"),
    (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", "<address>"),
    (r"\b0[xX][0-9a-fA-F]+\b", "<hex>"),
    # Long, and with a digit and a letter in it: words like `deadbeef` in prose are rare, ids are not.
    (r"\b(?=[a-fA-F]*\d)(?=\d*[a-fA-F])[0-9a-fA-F]{8,}\b", "<hex>"),
    (r"(?<![\w-])[-+]?\d+(?:[.,]\d+)*|\d+", "<n>"),
    (r"\s+", " "),
)


def shape_of(reason: str) -> str:
    for pattern, replacement in RULES:
        reason = re.sub(pattern, replacement, reason, flags=re.ASCII)
    return reason.strip()


def fingerprint_of(reason: str) -> str:
    return sha256(shape_of(reason).encode()).hexdigest()[:NAME_LENGTH]
