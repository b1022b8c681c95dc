"""What `pip install flotilla-mq` without an extra can do: the client, and a sentence in place of the command."""

import subprocess
import sys

import pytest

#: Runs code in a process in which the packages of the extra `server` are not installed.
WITHOUT_SERVER = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            sys.platform = {platform!r}
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
{code}
"""
SERVER = ("cronsim", "grpc", "grpc_health", "grpc_reflection", "rich", "typer", "uvloop")


def run(code: str, names: tuple[str, ...] = SERVER, platform: str = sys.platform) -> subprocess.CompletedProcess[str]:
    script = WITHOUT_SERVER.format(names=names, platform=platform, code=code)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


def test_the_client_loads_nothing_of_the_extra_server() -> None:
    everything = "import flotilla\nfor name in flotilla.__all__: getattr(flotilla, name)\nprint('fine')"
    assert run(everything).stdout == "fine\n"


def test_the_client_alone_loads_nothing_that_it_uses_later_or_never() -> None:
    later = {"lz4", "zstandard", "flotilla.client.admin.cluster", "pathlib", "urllib.parse"}
    assert run(f"from flotilla import Client\nprint({later} & sys.modules.keys())").stdout == "set()\n"


@pytest.mark.parametrize("names", [SERVER, ("rich",)])
def test_the_command_says_what_to_install(names: tuple[str, ...]) -> None:
    ended = run("sys.argv = ['flotilla', 'topic', 'list']\nfrom flotilla.cli.__main__ import main\nmain()", names)
    assert ended.returncode == 1
    assert "pip install 'flotilla-mq[server]'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_broker_on_windows_says_that_it_does_not_run_there() -> None:
    code = "sys.argv = ['flotilla', 'serve']\nfrom flotilla.cli.__main__ import main\nmain()"
    ended = run(code, ("uvloop",), platform="win32")
    assert ended.returncode == 1
    assert ended.stderr.startswith("flotilla: brokers run on Linux and macOS")
