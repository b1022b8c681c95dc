"""Python in the documents calls only methods and keywords that the client has."""

import ast
import re
from inspect import Parameter, signature
from textwrap import dedent

import pytest

from flotilla import Client, QueueConsumer, QueueMessage, Reader, StreamConsumer
from flotilla.client.transaction.sync import Transaction
from tests.tidy.tree import texts

#: What the documents call an object of each class.
NAMES = {
    "client": Client,
    "queue": QueueConsumer,
    "stream": StreamConsumer,
    "reader": Reader,
    "message": QueueMessage,
    "txn": Transaction,
}
BLOCKS = [
    (path, dedent(block))
    for path, text in texts().items()
    if path.endswith(".md") and path != "CHANGELOG.md"
    for block in re.findall(r"```python\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    # The stubs of gRPC have calls of other names.
    if path != "docs/grpc.md"
]
#: Single expressions in a sentence or a table, as in `client.queue("orders", group="workers")`.
SPANS = [
    (path, span)
    for path, text in texts().items()
    # Clients in other languages have spellings of their own.
    if path.endswith(".md") and path != "CHANGELOG.md" and not path.startswith("sdks/")
    for span in re.findall(r"`((?:client|queue|stream|reader|message|txn)\.[^`]*)`", text)
]


def misuse(program: str) -> list[str]:
    """Methods and keywords in the program that do not exist."""
    found = []
    for node in ast.walk(ast.parse(program)):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or node.value.id not in NAMES:
            continue
        if not hasattr(NAMES[node.value.id], node.attr):
            found.append(f"{node.value.id}.{node.attr}")
    for node in ast.walk(ast.parse(program)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method), keywords=keywords) if name in NAMES:
                parameters = signature(getattr(NAMES[name], method, misuse)).parameters
                if not any(each.kind is Parameter.VAR_KEYWORD for each in parameters.values()):
                    found += [f"{name}.{method}({word.arg}=)" for word in keywords if word.arg not in parameters]
    return found


@pytest.mark.parametrize(("path", "program"), BLOCKS)
def test_blocks_use_what_exists(path: str, program: str) -> None:
    assert misuse(program) == [], path


@pytest.mark.parametrize(("path", "span"), SPANS)
def test_expressions_use_what_exists(path: str, span: str) -> None:
    try:
        ast.parse(span)
    except SyntaxError:
        span = span.split("(")[0]
    assert misuse(span) == [], path


def test_misuse_is_found() -> None:
    assert misuse("client.cosumer") == ["client.cosumer"]
    assert misuse("client.queue('a', grop='b')") == ["client.queue(grop=)"]
    assert misuse("client.queue('a', group='b')") == []
