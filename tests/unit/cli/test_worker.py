"""How `flotilla worker` finds a handler, and what it says of one that cannot work."""

import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import typer

from flotilla.cli.terminal.metrics_page import metrics_page
from flotilla.cli.terminal.worker_processes import NUMBER_VARIABLE, own_address, without_flag
from flotilla.cli.worker import find_handler
from flotilla.types.address import Address
from flotilla.types.errors import InvalidArgumentError

MODULE = """
def handle(message): ...
def with_default(message, more=1): ...
def without(): ...
def with_two(message, other): ...
class Handler:
    def __call__(self, message): ...
    def method(self, message): ...
an_object = Handler()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("handlers_here", "broken_here"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    tmp_path.joinpath("handlers_here.py").write_text(MODULE)
    return tmp_path


@pytest.mark.parametrize("name", ["handle", "with_default", "an_object", "an_object.method"])
def test_a_handler_takes_a_message(name: str) -> None:
    assert callable(find_handler(f"handlers_here:{name}"))


@pytest.mark.parametrize("name", ["without", "with_two"])
def test_a_handler_that_no_message_fits_is_refused_at_the_start(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="takes one argument"):
        find_handler(f"handlers_here:{name}")


@pytest.mark.parametrize("source", ["import json\n\n1 / 0\n", "import nothing_of_this_name\n", "def broken(:\n"])
def test_a_module_that_fails_to_import_shows_its_own_frames_only(
    folder: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.joinpath("broken_here.py").write_text(source)
    with pytest.raises(typer.Exit):
        find_handler("broken_here:handle")
    shown = capsys.readouterr().err
    assert "broken_here.py" in shown
    assert "importlib" not in shown
    assert "flotilla/cli" not in shown
    assert shown.endswith("flotilla: module 'broken_here' cannot be imported\n")


@pytest.mark.parametrize(
    "words", [["worker", "shop:app", "--processes", "4", "-c", "2"], ["worker", "--processes=4", "shop:app", "-c", "2"]]
)
def test_a_process_of_a_worker_is_a_worker_of_one_process(words):
    assert without_flag(words) == ["worker", "shop:app", "-c", "2"]


def test_every_process_serves_metrics_at_a_port_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_address("127.0.0.1:9100") == Address("127.0.0.1", 9100)
    monkeypatch.setenv(NUMBER_VARIABLE, "3")
    assert own_address("127.0.0.1:9100") == Address("127.0.0.1", 9103)
    assert own_address("127.0.0.1:0") == Address("127.0.0.1", 0)
    with pytest.raises(InvalidArgumentError, match=r"write host:port"):
        own_address("9100")


def test_metrics_are_served_at_one_path_and_an_address_in_use_is_refused() -> None:
    with metrics_page(Address("127.0.0.1", 0), lambda: "a 1\n") as address:
        with urllib.request.urlopen(f"http://{address}/metrics?x=1", timeout=30) as answer:
            assert (answer.status, answer.read()) == (200, b"a 1\n")
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://{address}/", timeout=30)
        with pytest.raises(InvalidArgumentError, match="in use"), metrics_page(address, str):
            pass
