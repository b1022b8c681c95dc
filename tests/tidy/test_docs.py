"""The documents agree with the code: links, names, tables, commands, checkers."""

import ast
import re
import subprocess
import tomllib

import pytest

from flotilla.cli.chaos.scenario.run import SCENARIOS
from flotilla.types import errors, limits
from flotilla.types.errors import ALL_ERRORS, FlotillaError
from tests.tidy.imports import ALLOWED
from tests.tidy.markdown import anchors, link_violations, table_rows, title_violations
from tests.tidy.tree import ROOT, files, package_modules, relative, texts

#: Pictures are linked too, and have no text.
LINKED = {**dict.fromkeys(map(relative, files()), ""), **texts()}
MARKDOWN = {path: text for path, text in texts().items() if path.endswith(".md")}
README_LINES_MAX = 150
#: More than these stop being a list that is read; `quick` was worth a fourteenth.
TARGETS_MAX = 17


def checkers(document: str) -> list[str]:
    """The names of the simulator's checkers: several words in backquotes, and no code."""
    return re.findall(r"`((?!flotilla|async)[a-z]+(?:,? [a-z]+)+)`", document.split("## Time, chance")[0])


@pytest.mark.parametrize("path", MARKDOWN)
def test_one_title_and_links_that_lead_somewhere(path: str) -> None:
    assert title_violations(path, MARKDOWN[path]) == []
    assert link_violations(path, MARKDOWN[path], LINKED) == []


def test_the_readme_stays_short() -> None:
    assert MARKDOWN["README.md"].count("\n") < README_LINES_MAX


@pytest.mark.parametrize("path", MARKDOWN)
def test_tests_that_a_document_names_exist(path: str) -> None:
    for module, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", MARKDOWN[path]):
        assert module in LINKED, f"{path} names {module}"
        assert not name or re.search(rf"def {name}\b", LINKED[module]), f"{path} names {name} of {module}"


#: Pages that teach something; the others are tables to look something up in.
GUIDES = (
    *("app", "grpc", "http", "lake", "operations", "pipelines", "queues", "reading", "schedules", "spark", "streams"),
    *("tasks", "transactions"),
)


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_begins_with_code_and_knows_the_words_of_others(name: str) -> None:
    text = MARKDOWN[f"docs/{name}.md"]
    assert "## Coming from" in text
    rules = re.search(r"^## (?:What is promised|Conventions|Limits|Settings)", text, re.MULTILINE)
    assert text.index("```") < (rules.start() if rules else len(text))


# Errors.


def error_classes() -> list[type[FlotillaError]]:
    return [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, FlotillaError) and "row" in vars(value)
    ]


def test_every_error_class_is_in_the_list() -> None:
    assert list(ALL_ERRORS) == error_classes()


def test_no_error_of_the_family_is_defined_elsewhere() -> None:
    family = {error.__name__ for error in error_classes()} | {"FlotillaError"}
    for module in package_modules():
        if module.name == "types.errors":
            continue
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                assert not bases & family, f"{module.path}: {node.name} belongs into types/errors.py"


def test_codes_and_names_are_unique() -> None:
    rows = [error.row for error in ALL_ERRORS]
    assert len({row.code for row in rows}) == len(rows)
    assert len({row.name for row in rows}) == len(rows)
    table = [value for value in vars(errors).values() if isinstance(value, errors.ErrorCode)]
    assert sorted(table) == sorted(rows), "a row belongs to no class"


def test_every_error_is_drawn_in_the_module_docstring() -> None:
    drawn = re.findall(r"[|`]- (\w+)", errors.__doc__ or "")
    assert drawn == [error.__name__ for error in ALL_ERRORS]


def test_the_reference_of_errors_is_the_table() -> None:
    documented = [tuple(row[:5]) for row in table_rows(MARKDOWN["docs/reference/errors.md"])[1:]]
    expected = [
        (str(row.code), row.name, "yes" if row.retryable else "no", str(row.http_status), row.grpc_status)
        for row in (error.row for error in ALL_ERRORS)
    ]
    assert documented == expected


# Limits.


def shown(name: str, value: int) -> str:
    """A limit as people read it."""
    if "BYTES" in name and value < limits.KIB:
        return f"{value} bytes"
    if "BYTES" in name:
        return f"{value // limits.MIB} MiB" if value % limits.MIB == 0 else f"{value // limits.KIB} KiB"
    return f"{value:,}"


def test_the_reference_of_limits_is_the_module() -> None:
    documented = [tuple(row[:2]) for row in table_rows(MARKDOWN["docs/reference/limits.md"])[1:]]
    units = ("KIB", "MIB", "GIB")
    expected = [
        (name, shown(name, value)) for name, value in vars(limits).items() if name.isupper() and name not in units
    ]
    assert documented == expected


# Commands.


def make_targets(makefile: str) -> list[str]:
    declared = re.search(r"^\.PHONY: *(.+)$", makefile, re.MULTILINE)
    assert declared
    return declared.group(1).split()


def test_every_make_target_is_documented_explained_and_real() -> None:
    makefile = texts()["Makefile"]
    targets = make_targets(makefile)
    assert len(targets) <= TARGETS_MAX
    for target in targets:
        assert re.search(rf"^{target}:.*## \w", makefile, re.MULTILINE), f"{target} has no line of help"
        assert f"`make {target}" in MARKDOWN["CONTRIBUTING.md"], f"{target} is not in CONTRIBUTING.md"


def test_make_help_lists_every_target() -> None:
    listed = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^make ([\w-]+)  +\w", listed, re.MULTILINE)
    assert sorted(found) == sorted(make_targets(texts()["Makefile"]))


def test_make_chaos_runs_every_scenario_and_a_starved_one() -> None:
    planned = subprocess.run(["make", "-n", "chaos"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert re.findall(r"--scenario (\S+(?: --starved)?)", planned) == [*SCENARIOS, "tasks", "process --starved"]


def test_every_make_command_in_a_document_exists() -> None:
    targets = make_targets(texts()["Makefile"])
    for path, text in MARKDOWN.items():
        for target in re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE):
            assert target in targets, f"{path}: make {target}"


def test_continuous_integration_calls_the_same_targets() -> None:
    script = texts()[".ci/run"]
    assert "make check" in script
    assert re.search(r"^make test\b", script, re.MULTILINE)
    assert script.rstrip().endswith("exit $failed"), "one target that fails must not hide another"


def test_every_part_of_the_package_is_on_the_map() -> None:
    inside = [module.path.split("/") for module in package_modules() if module.path.startswith("src/flotilla/")]
    parts = {path[2] for path in inside} - {"__init__.py"}
    for part in sorted(parts):
        name = part if part.endswith(".py") else f"{part}/"
        assert f"`{name}`" in MARKDOWN["ARCHITECTURE.md"], f"{name} is not in ARCHITECTURE.md"


def test_the_map_allows_what_the_table_of_layers_allows() -> None:
    """Where the map names folders; cells in prose say the same more shortly."""
    compared = []
    for name, *_, allowed in [row for row in table_rows(MARKDOWN["ARCHITECTURE.md"]) if row[0].endswith("/")]:
        folders = tuple(allowed.split(", ")) if allowed != "nothing" else ()
        if set(folders) <= ALLOWED.keys():
            assert folders == ALLOWED[name.rstrip("/")], f"what {name} may import"
            compared.append(name)
    assert {"types/", "raft/", "replica/", "storage/", "peers/", "runtime/", "frontends/"} <= set(compared)


def test_every_module_that_the_map_names_exists() -> None:
    named = re.findall(r"`(\w+/[\w/]+\.py)`", MARKDOWN["ARCHITECTURE.md"])
    assert len(named) > 30
    known = LINKED.keys()
    assert [path for path in named if f"src/flotilla/{path}" not in known and path not in known] == []


def test_every_dependency_has_a_reason() -> None:
    project = tomllib.loads(texts()["pyproject.toml"])["project"]
    wanted = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    names = {re.split(r"[^\w-]", each)[0] for each in wanted}
    section = MARKDOWN["ARCHITECTURE.md"].split("## Dependencies")[1].split("\n## ")[0]
    assert {name for name in names if not re.search(rf"\b{name}\b", section)} == set()


CHECKERS = [(path, name) for path in ("ARCHITECTURE.md", "docs/streams.md") for name in checkers(MARKDOWN[path])]


@pytest.mark.parametrize(("path", "name"), CHECKERS)
def test_every_checker_that_a_document_names_exists(path: str, name: str) -> None:
    sources = [text for source, text in texts().items() if source.startswith("src/flotilla/sim/")]
    assert any(f'"{name}"' in text for text in sources), f"{path} names {name}"


# The checks can fail.


def test_titles_and_links_are_checked() -> None:
    assert title_violations("a.md", "text") != []
    assert title_violations("a.md", "# One\n\n# Two\n") != []
    assert title_violations("a.md", "# One\n\n```\n# a comment\n```\n## Two\n") == []
    files = {"docs/a.md": "# A\n\n## Some heading: it's one\n", "docs/b/c.md": "# C\n"}
    good = "[a](#some-heading-its-one) [b](b/c.md) [c](b) [d](https://example.org) [e](../docs/b/c.md#c)"
    assert link_violations("docs/a.md", good, files) == []
    for bad in ("[a](missing.md)", "[a](#nothing)", "[a](b/c.md#nothing)", "[a](../a.md)"):
        assert link_violations("docs/a.md", bad, files) != [], bad


def test_tables_are_read() -> None:
    assert table_rows("| a | b |\n| --- | :-: |\n| `1` | two |\n") == [["a", "b"], ["1", "two"]]
    assert anchors("# One two\n## Three\n") == {"one-two", "three"}
