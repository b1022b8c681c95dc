"""The files in deploy/ are valid for those who read them, and agree with the product."""

import gzip
import io
import json
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from flotilla.types.settings import SETTINGS
from tests.tidy.tree import ROOT

DEPLOY = ROOT / "deploy"
#: The first version that copies zones to pods, one before it and one after it.
KUBERNETES = ("1.33", "1.35", "1.37")
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


@pytest.mark.parametrize(
    "path",
    [
        "container/compose.yaml",
        "container/Containerfile",
        "kubernetes/statefulset.yaml",
        "helm/templates/statefulset.yaml",
    ],
)
def test_variables_are_settings(path: str) -> None:
    names = set(re.findall(r"FLOTILLA_[A-Z]\w+", (DEPLOY / path).read_text("utf-8")))
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


def test_the_chart_renders_valid_manifests_of_the_same_kinds() -> None:
    validate = pytest.importorskip("kubernetes_validate").validate
    chart = DEPLOY / "helm"
    chosen = ("nodes=5", "settings.disk_warn_free=10%", "storage.className=fast", "spreadOverZones=true")
    given = [word for value in chosen for word in ("--set", value)]
    for flags in ([], ["--set", "spreadOverMachines=false,insecure=false"], given):
        command = [installed("helm"), "template", "shop", str(chart), *flags]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        rendered = [each for each in yaml.safe_load_all(ran.stdout) if each]
        for manifest in rendered:
            for version in KUBERNETES:
                validate(manifest, version, strict=True)
        assert sorted(each["kind"] for each in rendered) == sorted(each["kind"] for _, each in MANIFESTS)
    (pods,) = [each for each in rendered if each["kind"] == "StatefulSet"]
    (container,) = pods["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert {"FLOTILLA_MACHINE", "FLOTILLA_ZONE"} <= variables.keys()
    assert variables["FLOTILLA_DISK_WARN_FREE"] == "10%"
    assert read_peers(variables["FLOTILLA_PEERS"]) == {number: f"shop-{number - 1}.shop:7601" for number in range(1, 6)}


def test_kustomize_renders_valid_manifests_also_with_the_zone_of_the_manual(tmp_path: Path) -> None:
    validate = pytest.importorskip("kubernetes_validate").validate
    kubectl = installed("kubectl")
    shutil.copytree(DEPLOY / "kubernetes", tmp_path / "base")
    manual = (DEPLOY / "README.md").read_text("utf-8").partition("## Zones on Kubernetes")[2]
    [variable] = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", manual, re.DOTALL)[0])
    patch = [{"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": variable}]
    overlay = {"resources": ["base"], "patches": [{"target": {"kind": "StatefulSet"}, "patch": yaml.safe_dump(patch)}]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay), "utf-8")
    ran = subprocess.run([kubectl, "kustomize", tmp_path], capture_output=True, text=True, check=True)
    rendered = list(yaml.safe_load_all(ran.stdout))
    assert sorted(each["kind"] for each in rendered) == sorted(each["kind"] for _, each in MANIFESTS)
    for manifest in rendered:
        for version in KUBERNETES:
            validate(manifest, version, strict=True)
    assert "FLOTILLA_ZONE" in ran.stdout


def read_peers(text: str) -> dict[int, str]:
    return {node: str(address) for node, address in SETTINGS["peers"].kind.read(text)}


def test_the_image_that_is_built_without_an_engine_is_that_of_the_containerfile(tmp_path: Path) -> None:
    script = runpy.run_path(str(DEPLOY / "container/build.py"))
    containerfile = (DEPLOY / "container/Containerfile").read_text("utf-8")
    settings = script["image_settings"](containerfile)
    assert settings["User"] == "10001:10001"
    assert settings["Volumes"] == {"/data": {}}
    assert [*settings["Entrypoint"], *settings["Cmd"]] == ["flotilla", "serve"]
    assert len(settings["ExposedPorts"]) == 4
    assert {each.split("=")[0] for each in settings["Env"]} >= set(re.findall(r"FLOTILLA_\w+", containerfile))
    assert settings["Healthcheck"]["Interval"] == 10 * 10**9
    assert "/health" in settings["Healthcheck"]["Test"][-1]
    tree = tmp_path / "root"
    (tree / "opt").mkdir(parents=True)
    (tree / "opt/one").write_bytes(b"content")
    (tree / "two").symlink_to("opt/one")
    script["write_image"](tree, settings, "flotilla:1", tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as image:
        files = {name: file.read() for name in image.getnames() if (file := image.extractfile(name))}
    blobs = {name: content for name, content in files.items() if name.startswith("blobs/")}
    assert all(name == f"blobs/sha256/{sha256(content).hexdigest()}" for name, content in blobs.items())
    (saved,) = json.loads(files["manifest.json"])
    assert saved["RepoTags"] == ["flotilla:1"]
    (layer,) = saved["Layers"]
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(files[layer]))) as unpacked:
        assert unpacked.getnames() == ["opt", "opt/one", "two"]
        assert unpacked.getmember("two").linkname == "opt/one"
    (named,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blobs["blobs/" + named["digest"].replace(":", "/")])
    configuration = json.loads(blobs["blobs/" + manifest["config"]["digest"].replace(":", "/")])
    assert configuration["config"] == settings
    assert configuration["rootfs"]["diff_ids"] == [f"sha256:{sha256(gzip.decompress(files[layer])).hexdigest()}"]


def test_the_debian_package_is_built_and_has_what_a_node_needs(tmp_path: Path) -> None:
    dpkg_deb = installed("dpkg-deb")
    build = [sys.executable, str(DEPLOY / "debian/build.py"), "--output", str(tmp_path), "--without-dependencies"]
    subprocess.run(build, check=True, capture_output=True)
    (package,) = tmp_path.glob("flotilla_*.deb")
    content = subprocess.run([dpkg_deb, "--contents", package], check=True, capture_output=True, text=True).stdout
    rows = {line.split()[5]: line.split()[:2] for line in content.splitlines()}
    assert rows["./usr/bin/flotilla"] == ["-rwxr-xr-x", "root/root"]
    assert rows["./etc/flotilla/node.toml"] == ["-rw-r--r--", "root/root"]
    assert {"./lib/systemd/system/flotilla.service", "./usr/lib/flotilla/flotilla/console/index.html"} <= rows.keys()
    assert not [name for name in rows if "__pycache__" in name]
    fields = subprocess.run([dpkg_deb, "--field", package], check=True, capture_output=True, text=True).stdout
    assert "Version: 0." in fields
    # The files work where they are put: the command runs with this interpreter and what it has installed.
    subprocess.run([dpkg_deb, "--extract", package, tmp_path / "root"], check=True)
    asked = [sys.executable, "-P", "-m", "flotilla.cli", "config", "show", "--config", "etc/flotilla/node.toml"]
    environment = {"PYTHONPATH": "usr/lib/flotilla", "PATH": "/usr/bin"}
    shown = subprocess.run(asked, cwd=tmp_path / "root", env=environment, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "node_id = 1" in shown.stdout


def test_the_unit_is_valid(tmp_path: Path) -> None:
    """With an interpreter that exists here in place of the installed one."""
    unit = (
        (DEPLOY / "systemd/flotilla.service").read_text("utf-8").replace("/opt/flotilla/bin/flotilla", sys.executable)
    )
    path = tmp_path / "flotilla.service"
    path.write_text(unit, "utf-8")
    ran = subprocess.run([installed("systemd-analyze"), "verify", path], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
