"""Every bound that callers of an endpoint meet stands in the reference of limits, with its value."""

import ast
import re
from importlib import import_module

import pytest

from tests.tidy.test_docs import MARKDOWN, shown
from tests.tidy.test_state_bounds import PAGE, items
from tests.tidy.tree import ROOT

TITLE = "Endpoints"
SOURCE = ROOT / "src" / "flotilla"
FOLDERS = ("frontends", "frontends/tcp", "frontends/http", "frontends/grpc", "gateway", "peers")
#: How much of what a caller has sent is repeated in an error.
QUOTED = re.compile(r"_(TEXT|SHOWN|QUOTED|PATH)_CHARS_MAX")


def bounds_of(folder: str) -> dict[str, set[int]]:
    """Values by name, without the underscore of private ones. Those of `types.limits` have a table of their own."""
    found: dict[str, set[int]] = {}
    files = (SOURCE / folder).glob("*.py" if folder == "frontends" else "**/*.py")
    for file in files:
        module = "flotilla." + ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        for node in ast.parse(file.read_text()).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for name in [each.id for each in targets if isinstance(each, ast.Name)]:
                value = getattr(import_module(module), name) if name.endswith("_MAX") else None
                if isinstance(value, int) and QUOTED.fullmatch(name) is None:
                    found.setdefault(name.lstrip("_"), set()).add(value)
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_bound_of_an_endpoint_is_documented(folder: str) -> None:
    (item,) = [item for item in items(TITLE) if item.startswith(f"- `{folder}`:")]
    bounds = bounds_of(folder)
    assert bounds
    assert set(re.findall(r"`([A-Z_]+_MAX)`", item)) == set(bounds)
    for name, values in bounds.items():
        for value in values:
            assert re.search(rf"(?<!\d)(?<!\d,){re.escape(shown(name, value))}(?!,?\d)", item), f"{name} is {value}"


def test_every_endpoint_has_an_item() -> None:
    assert f"## {TITLE}\n" in MARKDOWN[PAGE]
    assert [re.findall(r"^- `([a-z/]+)`:", item) for item in items(TITLE)] == [[folder] for folder in FOLDERS]
