"""`flotilla config show` prints values and origins, and one line for a mistake."""

import json
import tomllib

import pytest
from rich.console import Console
from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.cli.config import as_table
from flotilla.runtime.settings_loader import load_settings
from flotilla.types.settings import SETTINGS


def run(*args, environ=None):
    result = CliRunner(env={"FLOTILLA_CONFIG": None}).invoke(app, ["config", "show", *args], env=environ or {})
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def test_json_has_value_and_origin():
    result = run("--json", "--heartbeat-ms", "250ms", environ={"FLOTILLA_HTTP_LISTEN": "off"})
    assert result.exit_code == 0
    shown = json.loads(result.stdout)
    assert list(shown) == [setting.name for setting in SETTINGS.values()]
    assert shown["heartbeat_ms"] | {"help": ""} == {
        "value": 250,
        "text": "250ms",
        "origin": "flag",
        "place": "--heartbeat-ms",
        "scope": "cluster",
        "help": "",
    }
    http = shown["http_listen"]
    assert (http["value"], http["text"], http["origin"]) == (None, "off", "environment")
    assert (shown["node_id"]["value"], shown["node_id"]["origin"]) == (1, "default")
    assert (shown["peers"]["value"], shown["join"]["value"]) == ({}, [])


def test_files_with_secrets_are_named_and_not_shown(tmp_path):
    planted = []
    flags = []
    for name in ("join-secret", "join-token", "tls-key", "tls-certificate", "tls-ca", "token-keys"):
        secret = f"planted-{name}-0123456789abcdef"
        planted.append(secret)
        (tmp_path / name).write_text(secret + "\n")
        (tmp_path / name).chmod(0o600)
        flags += [f"--{name}", str(tmp_path / name)]
    file = tmp_path / "flotilla.toml"
    file.write_text("".join(f'{name[2:].replace("-", "_")} = "{path}"\n' for name, path in pairwise_of(flags)))
    for shown in (run(*flags), run("--json", *flags), run("--config", str(file)), run("--json", "--config", str(file))):
        assert shown.exit_code == 0, shown.output
        assert str(tmp_path / "join-secret") in shown.output
        assert [secret for secret in planted if secret in shown.output] == []


def pairwise_of(flags):
    return zip(flags[::2], flags[1::2], strict=True)


def test_every_setting_has_a_flag():
    for setting in SETTINGS.values():
        text = setting.kind.format(setting.default)
        if setting.kind.shape.startswith("true|false"):
            text = setting.kind.format(bool(setting.default))
            flags = [setting.flag if setting.default else f"--no-{setting.flag.removeprefix('--')}"]
        else:
            flags = [setting.flag, text]
        shown = json.loads(run("--json", *flags).stdout)
        assert (shown[setting.name]["place"], shown[setting.name]["text"]) == (setting.flag, text)


def test_piped_output_is_a_file_that_gives_the_same_values(tmp_path):
    given = (
        "--peers",
        "2=[::1]:1,3=localhost:2",
        "--data-dir",
        'a "quoted" \\ päth \U0001f6a2',
        "--auto-create-topics",
    )
    first = run(*given)
    assert first.exit_code == 0
    assert "auto_create_topics = true  # flag --auto-create-topics\n" in first.stdout
    file = tmp_path / "flotilla.toml"
    file.write_text(first.stdout, encoding="utf-8")
    again = run("--config", str(file))
    assert tomllib.loads(again.stdout) == tomllib.loads(first.stdout)
    origins = {entry["origin"] for entry in json.loads(run("--json", "--config", str(file)).stdout).values()}
    assert origins == {"file"}


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_table_shows_every_key_and_origin(width):
    loaded = load_settings({"data_dir": "[red]x[/red]"}, {"FLOTILLA_NODE_ID": "7"})
    console = Console(width=width)
    with console.capture() as capture:
        console.print(as_table(loaded, console.width))
    lines = capture.get().splitlines()
    keys = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert keys == ["key", *(setting.name for setting in SETTINGS.values())]
    assert ("meaning" in lines[0]) == (width >= 100)
    folded = "".join("".join(lines).split())
    assert "[red]x[/red]" in folded
    if width >= 80:
        assert "7environmentFLOTILLA_NODE_ID" in folded


@pytest.mark.parametrize(
    ("args", "environ", "complaint"),
    [
        (["--node-id", "0"], {}, "node_id = '0' (flag --node-id): expected a whole number"),
        ([], {"FLOTILLA_NODE_IDD": "1"}, "unknown environment variable: 'FLOTILLA_NODE_IDD'; did you mean"),
        (["--config", "missing.toml"], {}, "cannot read the settings in missing.toml: No such file"),
        (["--quiesce-ms", "1"], {}, "quiesce_ms = '1ms' (flag --quiesce-ms) and heartbeat_ms"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(args, environ, complaint):
    result = run(*args, environ=environ)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"flotilla: {complaint}")
    assert result.stderr.count("\n") == 1


def test_the_help_lists_every_flag():
    help_text = run("--help", environ={"COLUMNS": "200"}).stdout
    for setting in SETTINGS.values():
        assert setting.flag in help_text
    assert "(default 127.0.0.1:7600)" in help_text
