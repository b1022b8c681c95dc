"""The options of `flotilla proxy`."""

import socket
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.cli.proxy import read_listener
from flotilla.types.address import Address
from flotilla.types.errors import InvalidArgumentError


def test_listeners() -> None:
    assert read_listener("--grpc-listen", "off") is None
    assert read_listener("--grpc-listen", "0.0.0.0:7650") == Address("0.0.0.0", 7650)
    with pytest.raises(InvalidArgumentError, match="--grpc-listen 'here'"):
        read_listener("--grpc-listen", "here")


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--grpc-listen", "off", "--http-listen", "off"], "needs a listener"),
        (["--grpc-listen", "nonsense"], "write host:port, or off"),
        (["--grpc-listen", "0.0.0.0:0"], "add --insecure if the network keeps everybody else out"),
        (["--servers", "no/address", "--grpc-listen", "off", "--http-listen", "127.0.0.1:0"], "not the address"),
    ],
)
def test_an_invalid_flag_is_one_line(flags: list[str], complaint: str) -> None:
    found = CliRunner().invoke(app, ["proxy", *flags])
    assert found.exit_code == 2
    assert complaint in found.output


def test_an_address_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-m", "flotilla.cli", "proxy", "--grpc-listen", address, "--http-listen", "off"],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    assert f"cannot listen at {address} (--grpc-listen)" in done.stderr
