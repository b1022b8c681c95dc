"""The command as a whole: its verbs, and its answers to mistakes, without a broker."""

import io
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import VERBS, app, load_verb
from flotilla.cli.produce import _LINE_BYTES_MAX, _lines
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.version import __version__

#: No process listens at this port, and none without privileges could.
CLOSED = "127.0.0.1:1"


def run(*args, stdin=None):
    result = CliRunner(env={"FLOTILLA_SERVERS": None}).invoke(app, args, input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def test_version():
    for word in ("version", "--version"):
        result = run(word)
        assert (result.exit_code, result.stdout) == (0, f"{__version__}\n")


def test_the_help_lists_every_verb():
    text = run("--help").stdout
    for verb in VERBS:
        assert f" {verb} " in text


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_loads_and_explains_itself(verb):
    assert load_verb(verb).name == verb
    result = run(verb, "--help")
    assert result.exit_code == 0
    assert "Usage: " in result.stdout


@pytest.mark.parametrize(
    "args",
    [
        ["cluster", "start", "--data", "/proc/nope"],
        ["bench", "--data", "/proc/nope"],
        ["config", "show", "--config", "/proc/nope"],
    ],
)
def test_a_folder_or_file_that_cannot_be_is_one_line_and_no_stack_trace(args):
    result = run(*args)
    assert result.exit_code in (1, 2)
    assert "/proc/nope" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("words", [["serve"], ["produce"], ["topic", "create"], ["cluster", "init"], []])
def test_the_help_names_no_types_of_python(words):
    text = run(*words, "--help").stdout
    assert not re.search(r"<(bool|str|int|float|path)|\{[A-Z]|\[\[", text)


def test_a_misspelt_verb_is_met_with_the_right_one():
    result = run("topc")
    assert result.exit_code == 2
    assert "topic" in result.stderr


@pytest.mark.parametrize(
    ("args", "code", "complaint"),
    [
        (["topic", "list", "-s", "nonsense:x"], 2, "'nonsense:x' is not the address of a broker"),
        (["topic", "list", "--timeout", "soon"], 2, "--timeout 'soon': not a whole number"),
        (["topic", "list", "--timeout", "0"], 2, "--timeout '0': it must be longer"),
        (
            ["topic", "create", "x", "--set", "retnetion_ms=1"],
            2,
            "there is no topic setting 'retnetion_ms'; did",
        ),
        (["topic", "create", "x", "--set", "retention_ms"], 2, "--set 'retention_ms': expected name=value"),
        (["topic", "alter", "x"], 2, "nothing to change"),
        (["topic", "delete", "x"], 2, "deleting cannot be undone; confirm it with --yes"),
        (["produce", "x", "hello", "--file", __file__], 2, "give a message or --file, not both"),
        (["produce", "x", "hello", "--header", "h"], 2, "--header 'h': expected name=value"),
        (["consume", "x", "--from", "junk"], 2, "'junk' is no place to begin at"),
        (["cluster", "stop", "--data", "nowhere"], 3, "no cluster was started in nowhere"),
        (["topic", "list", "-s", CLOSED, "--timeout", "100ms"], 4, "not done in time"),
        (["produce", "x", "hello", "-s", CLOSED, "--timeout", "100ms"], 4, "not done in time"),
        (["consume", "x", "-s", CLOSED, "--timeout", "100ms"], 4, "not done in time"),
        (["cluster", "status", "-s", CLOSED, "--timeout", "100ms"], 4, "not done in time"),
        (["cluster", "init", CLOSED, "--timeout", "100ms"], 4, "not done in time"),
    ],
)
def test_a_mistake_is_one_line_and_an_exit_code(args, code, complaint):
    result = run(*args)
    assert result.stderr.startswith(f"flotilla: {complaint}")
    assert result.stderr.count("\n") == 1
    assert (result.exit_code, result.stdout) == (code, "")


def test_a_broker_needs_a_folder(tmp_path):
    file = tmp_path / "file"
    file.touch()
    result = run("serve", "--data-dir", str(file))
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert result.stderr.startswith(f"flotilla: cannot keep data in {file} (--data-dir): ")


@pytest.mark.parametrize("flag", ["--listen", "--http-listen", "--grpc-listen", "--peer-listen"])
def test_a_node_that_strangers_can_reach_does_not_start(tmp_path, flag):
    result = run("serve", "--data-dir", str(tmp_path / "data"), flag, "0.0.0.0:9999")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "use TLS and authentication, or set insecure = true" in result.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("flag", ["--listen", "--peer-listen"])
def test_a_node_that_strangers_could_join_does_not_start(tmp_path, flag):
    result = run("serve", "--data-dir", str(tmp_path / "data"), "--insecure", flag, "0.0.0.0:9999")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "whoever does can become a node; use TLS, or give all nodes a file with the same secret" in result.stderr
    assert not (tmp_path / "data").exists()


def test_silence_is_met_with_what_to_do():
    assert "`flotilla serve` starts one" in run("topic", "list", "-s", CLOSED, "--timeout", "100ms").stderr


def test_a_script_that_fails_in_the_shell_ends_with_the_code_of_its_mistake():
    result = run("shell", "-s", CLOSED, stdin="help poll\nnonsense\nhelp send\n")
    assert result.exit_code == 2
    assert "poll [COUNT]" in result.stdout
    assert "send TOPIC" not in result.stdout
    assert result.stderr == "flotilla: there is no command 'nonsense'; `help` lists them\n"


def test_servers_in_the_environment_of_a_node_are_no_unknown_setting():
    result = CliRunner(env={"FLOTILLA_SERVERS": "a:1", "FLOTILLA_CONFIG": None}).invoke(app, ["config", "show"])
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\n\nlast", [b"a", b"", b"last"]),
        (b"\xff\x00 \n", [b"\xff\x00 "]),
    ],
)
def test_lines_are_messages_without_their_ends(given, lines):
    assert list(_lines(io.BytesIO(given))) == lines


def test_a_line_without_end_is_refused_before_it_fills_the_memory():
    with pytest.raises(InvalidArgumentError, match="a line is longer"):
        list(_lines(io.BytesIO(b"x" * (_LINE_BYTES_MAX + 1))))


WITHOUT_PYSPARK = """
import sys
sys.modules["pyspark"] = None
from flotilla.cli.app import main
sys.argv = ["flotilla", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(
    "words",
    [["pipeline", "query", "SELECT 1"], ["pipeline", "archive", "x"], ["chaos", "--scenario", "tasks", "--audit"]],
)
def test_without_pyspark_a_pipeline_says_what_to_install(words):
    ran = subprocess.run([sys.executable, "-c", WITHOUT_PYSPARK, *words], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("flotilla: PySpark is not installed")
