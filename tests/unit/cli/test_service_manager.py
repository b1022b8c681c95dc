"""Messages to systemd, over a real socket."""

import socket

import pytest

from flotilla.cli.terminal.service_manager import READY, notify


@pytest.mark.parametrize("is_abstract", [False, True])
def test_it_is_told(is_abstract, tmp_path, monkeypatch):
    name = f"flotilla-{tmp_path.name}-{id(tmp_path)}"
    shown = f"@{name}" if is_abstract else str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}" if is_abstract else shown)
        monkeypatch.setenv("NOTIFY_SOCKET", shown)
        assert notify(READY)
        assert listener.recv(100) == b"READY=1"


@pytest.mark.parametrize("where", ["", "relative", "/nowhere/at/all"])
def test_nobody_to_tell(where, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", where)
    assert not notify(READY)
