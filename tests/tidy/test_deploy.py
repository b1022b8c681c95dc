"""The files in deploy/ are valid for those who read them, and agree with the product."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from flotilla.types.settings import SETTINGS
from tests.tidy.tree import ROOT

DEPLOY = ROOT / "deploy"
RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus/alerts.yaml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
MANIFESTS = [
    (path.name, manifest)
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for manifest in yaml.safe_load_all(path.read_text("utf-8"))
]


def installed(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def unknown_metrics(query: str) -> set[str]:
    reference = (ROOT / "docs/reference/metrics.md").read_text("utf-8")
    known = set(re.findall(r"`((?:flotilla|process)_\w+)`", reference))
    return {name.removesuffix("_bucket") for name in re.findall(r"(?:flotilla|process)_\w+", query)} - known


def test_alerts_use_metrics_that_exist() -> None:
    for rule in RULES:
        assert not unknown_metrics(rule["expr"]), rule["alert"]


def test_boards_are_as_their_script_writes_them() -> None:
    script = runpy.run_path(str(DEPLOY / "grafana/boards.py"))
    for name, rows in script["BOARDS"].items():
        kept = (DEPLOY / f"grafana/{name}.json").read_text("utf-8")
        assert kept == script["render"](name), "run `python deploy/grafana/boards.py`"
        for panel in (panel for row in rows for panel in row):
            assert not unknown_metrics(" ".join(panel.queries.values())), panel.title


def test_every_alert_has_a_paragraph_in_the_runbook() -> None:
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs/runbook.md").read_text("utf-8"), re.MULTILINE)
    assert headings == [rule["alert"] for rule in RULES]


def test_every_alert_fires() -> None:
    tests = yaml.safe_load((DEPLOY / "prometheus/alerts_test.yaml").read_text("utf-8"))["tests"]
    fired = [case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]]
    assert fired == [rule["alert"] for rule in RULES]
    ran = subprocess.run(
        [installed("promtool"), "test", "rules", "alerts_test.yaml"],
        cwd=DEPLOY / "prometheus",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("path", ["container/compose.yaml", "container/Containerfile", "kubernetes/statefulset.yaml"])
def test_variables_are_settings(path: str) -> None:
    names = set(re.findall(r"FLOTILLA_\w+", (DEPLOY / path).read_text("utf-8")))
    assert names
    assert names <= {setting.variable for setting in SETTINGS.values()}


def test_flags_are_settings() -> None:
    unit = (DEPLOY / "systemd/flotilla.service").read_text("utf-8")
    pods = (DEPLOY / "kubernetes/statefulset.yaml").read_text("utf-8")
    flags = set(re.findall(r"(?<=\s)--[a-z-]+", unit + pods)) - {"--config"}
    assert flags <= {setting.flag for setting in SETTINGS.values()}


@pytest.mark.parametrize(("name", "manifest"), MANIFESTS, ids=[f"{name}:{each['kind']}" for name, each in MANIFESTS])
def test_manifests_are_valid(name: str, manifest: dict[str, object]) -> None:
    validate = pytest.importorskip("kubernetes_validate").validate
    if manifest["kind"] == "StatefulSet":
        # As kustomize adds it to selectors and pods.
        labels = {"app.kubernetes.io/name": "flotilla"}
        manifest["spec"]["selector"] = {"matchLabels": labels}  # type: ignore[index]
        manifest["spec"]["template"]["metadata"]["labels"] = labels  # type: ignore[index]
    validate(manifest, "1.33", strict=True)


def test_the_unit_is_valid(tmp_path: Path) -> None:
    """With an interpreter that exists here in place of the installed one."""
    unit = (
        (DEPLOY / "systemd/flotilla.service").read_text("utf-8").replace("/opt/flotilla/bin/flotilla", sys.executable)
    )
    path = tmp_path / "flotilla.service"
    path.write_text(unit, "utf-8")
    ran = subprocess.run([installed("systemd-analyze"), "verify", path], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
