"""The reference page of metrics is generated from the code. REWRITE=1 writes it again; read the diff."""

import ast
import json
import os
import re

from flotilla.client.handler_metrics import FAMILIES
from flotilla.runtime.observability.metrics import ALL_METRICS
from flotilla.types.errors import ALL_ERRORS
from flotilla.types.operations.cluster import (
    DISK_LOW,
    DISK_REFUSES,
    DISK_STALLED,
    INSECURE,
    LABELS_TOO_FEW,
    ONE_PLACE,
    REPLICA_BEHIND,
    REPLICA_DOWN,
    REPLICA_FORGETFUL,
    REPLICAS_TOGETHER,
    RETENTION_HELD,
    TIMING_DIFFERS,
    UNDER_REPLICATED,
    UPGRADE_POSSIBLE,
)
from tests.tidy.markdown import prose, table_rows
from tests.tidy.metrics_page import PATH, render
from tests.tidy.tree import ROOT, package_modules

#: What a histogram's name may end with in a query.
_ENDINGS = ("_bucket", "_sum", "_count")


def page() -> str:
    return (ROOT / PATH).read_text("utf-8")


def test_the_page_is_fresh() -> None:
    if os.environ.get("REWRITE"):
        (ROOT / PATH).write_text(render(), "utf-8")
    assert page() == render(), "run REWRITE=1 pytest tests/tidy/test_metrics_docs.py"


def test_every_metric_has_a_row() -> None:
    names = [row[0] for row in table_rows(page()) if len(row) == 4 and row[0] != "metric"]
    assert names == [*(metric.name for metric in ALL_METRICS), *FAMILIES]


def test_every_metric_that_the_page_speaks_of_exists() -> None:
    known = {metric.name for metric in ALL_METRICS} | {*FAMILIES}
    known |= {metric.name + ending for metric in ALL_METRICS if metric.kind == "histogram" for ending in _ENDINGS}
    assert set(re.findall(r"\b(?:flotilla|process)_[a-z_]+", prose(page()))) <= known


def test_no_metric_is_named_outside_of_the_table() -> None:
    names = {metric.name for metric in ALL_METRICS}
    for module in package_modules():
        if module.name == "runtime.observability.metrics":
            continue
        texts = {node.value for node in module.nodes if isinstance(node, ast.Constant)}
        assert not texts & names, module.path


def test_every_reason_is_explained() -> None:
    """Reasons are made in one module, from a word of their own or from the code of an error."""
    [status] = [module for module in package_modules() if module.name == "broker.observability.status"]
    made = {node.value for node in status.nodes if isinstance(node, ast.Constant) and _is_code(node.value)}
    section = page().partition("## Readiness")[2].partition("### Warnings")[0]
    explained = {code for row in table_rows(section) for code in re.findall(r"[A-Z_]{4,}", row[0])}
    assert made == explained - {error.row.name for error in ALL_ERRORS}
    assert explained & {error.row.name for error in ALL_ERRORS} == {"DISK_FULL", "STORAGE_FAILED"}


def test_every_warning_is_explained() -> None:
    disk = {DISK_STALLED, DISK_LOW, DISK_REFUSES}
    replicas = {REPLICA_DOWN, REPLICA_BEHIND, REPLICA_FORGETFUL, REPLICAS_TOGETHER, LABELS_TOO_FEW, ONE_PLACE}
    codes = {*disk, *replicas, INSECURE, UNDER_REPLICATED, RETENTION_HELD, TIMING_DIFFERS, UPGRADE_POSSIBLE}
    section = page().partition("### Warnings")[2].partition("## Metrics")[0]
    assert {code for row in table_rows(section) for code in re.findall(r"[A-Z_]{4,}", row[0])} == codes


def _is_code(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[A-Z]+(_[A-Z]+)*", value) is not None


def test_the_examples_are_json() -> None:
    blocks = re.findall(r"```json\n(.*?)```", page(), re.DOTALL)
    health, ready = (json.loads(block) for block in blocks)
    assert list(health) == _health_keys()
    assert ready.keys() == {"ready", "reasons", "warnings"}


def _health_keys() -> list[str]:
    """The fields of the answer, from the function that makes it."""
    [status] = [module for module in package_modules() if module.name == "broker.observability.status"]
    [function] = [node for node in status.nodes if isinstance(node, ast.FunctionDef) and node.name == "health"]
    [facts] = [node for node in ast.walk(function) if isinstance(node, ast.Dict)]
    return [key.value for key in facts.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
