"""A node with TLS in a process of its own, seen with the tools of others, and with the command."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flotilla import Client
from flotilla.cli.local_cluster import LocalCluster, LocalNode
from flotilla.security.authority import Authority
from flotilla.security.client_tls import VARIABLES
from flotilla.types.errors import DeadlineError, UnavailableError
from tests.unit.security.issuing import CLUSTER, HOSTS, files_in, folder_of, trusting

ENDPOINTS = ("client", "http", "grpc", "peer")
COMMAND = (sys.executable, "-m", "flotilla.cli")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNode]:
    folder = tmp_path_factory.mktemp("node")
    shutil.copytree(folder_of(CLUSTER), folder / "certificates")
    Authority(folder / "certificates").issue_node(1, HOSTS, days=10, is_replacing=True)
    certificate, key, ca = files_in(folder / "certificates", "node1")
    flags = ("--tls-certificate", certificate, "--tls-key", key, "--tls-ca", ca)
    with LocalCluster.on_free_ports(folder, node_count=1, flags=flags) as cluster:
        cluster.start()
        with Client(cluster.servers, tls=trusting(), timeout_ms=20_000) as client:
            client.create_topic("ready")
        yield cluster.nodes[1]


def certificates_of(node: LocalNode) -> Path:
    return node.data.parent / "certificates"


def test_openssl_gets_tls_1_3_and_nothing_older(node: LocalNode) -> None:
    certificate, key, ca = files_in(certificates_of(node), "node1")
    shown = ("-cert", certificate, "-key", key, "-CAfile", ca, "-verify_return_error", "-brief", "-alpn", "h2")
    # What an endpoint says is no text.
    how: dict[str, Any] = {"input": "", "text": True, "errors": "replace", "timeout": 20, "capture_output": True}
    for endpoint in ENDPOINTS:
        address = f"127.0.0.1:{getattr(node.ports, endpoint)}"
        new = subprocess.run(["openssl", "s_client", "-connect", address, "-tls1_3", *shown], **how)
        assert "Protocol version: TLSv1.3" in new.stderr, (endpoint, new.stderr)
        assert "Verification: OK" in new.stderr
        old = subprocess.run(["openssl", "s_client", "-connect", address, "-tls1_2", *shown], **how)
        assert old.returncode, endpoint
        assert "Protocol version" not in old.stderr, endpoint


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("sslyze") is None,
    reason="sslyze is not installed: it needs an older cryptography than ours, so pipx has to install it",
)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_sslyze_finds_the_modern_profile(node: LocalNode, endpoint: str) -> None:
    certificate, key, ca = files_in(certificates_of(node), "node1")
    command = ["sslyze", "--mozilla_config=modern", "--certinfo_ca_file", ca, "--cert", certificate, "--key", key]
    server = f"localhost:{getattr(node.ports, endpoint)}"
    done = subprocess.run([*command, server], capture_output=True, text=True, timeout=120, check=False)
    verdict = done.stdout.partition("COMPLIANCE AGAINST TLS CONFIGURATION")[2]
    faults = [line.strip() for line in verdict.splitlines() if line.strip().startswith("* ")]
    assert "Checking results" in verdict, done.stdout + done.stderr
    # Two more curves than the profile names, both stronger; the standard library can choose all or one.
    assert [fault for fault in faults if not fault.startswith("* tls_curves: ")] == []
    assert all("X448" in fault or "secp521r1" in fault for fault in faults)


def test_commands_speak_tls(node: LocalNode) -> None:
    def call(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        variables = {name: value for name, value in os.environ.items() if not name.startswith("FLOTILLA_")}
        return subprocess.run(
            [*COMMAND, *words], env={**variables, **environ}, capture_output=True, text=True, timeout=60, check=False
        )

    flags = ("--tls-ca", str(trusting().ca))
    made = call(*flags, "topic", "create", "shell", "-s", node.address)
    assert made.returncode == 0, made.stderr
    url = f"https://localhost:{node.ports.http}"
    done = call(*flags, "task", "enqueue", "mail", "--http", url)
    assert done.returncode == 0, done.stderr
    assert call("topic", "list", "-s", node.address, "--timeout", "1s").returncode == 4
    # The same from the environment, which a node ignores.
    assert "shell" in call("topic", "list", "-s", node.address, **{VARIABLES[0]: str(trusting().ca)}).stdout
    assert call("config", "show", **dict.fromkeys(VARIABLES, "file")).returncode == 0


def test_a_proxy_has_tls_on_both_sides(node: LocalNode) -> None:
    certificate, key, ca = files_in(certificates_of(node), "node1")
    listen = ("--http-listen", "127.0.0.1:0", "--grpc-listen", "off")
    own = ("--listen-certificate", certificate, "--listen-key", key)
    with subprocess.Popen(
        [*COMMAND, "--tls-ca", ca, "proxy", "-s", node.address, *listen, *own, "--stop-with-stdin"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as proxy:
        assert proxy.stdin is not None
        assert proxy.stderr is not None
        line = next(line for line in proxy.stderr if '"listening"' in line)
        port = line.split('"at":"127.0.0.1:')[1].split('"')[0]
        found = subprocess.run(
            [*COMMAND, "--tls-ca", ca, "task", "list", "--http", f"https://localhost:{port}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        proxy.stdin.close()
        assert found.returncode == 0, found.stderr
        assert proxy.wait(20) == 0


def test_a_hangup_has_new_certificates_taken(node: LocalNode) -> None:
    before = node.log.read_text("utf-8").count("the certificate was read again")
    Authority(certificates_of(node)).issue_node(1, HOSTS, days=20, is_replacing=True)
    os.kill(node.pid, signal.SIGHUP)
    deadline = time.monotonic() + 20
    while node.log.read_text("utf-8").count("the certificate was read again") == before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_node_without_the_right_certificate_does_not_start(node: LocalNode, tmp_path: Path) -> None:
    certificate, key, ca = files_in(certificates_of(node), "node1")
    flags = ("--tls-certificate", certificate, "--tls-key", key, "--tls-ca", ca)
    serve = (*COMMAND, "serve", "--data-dir", str(tmp_path), "--node-id", "2", *flags)
    done = subprocess.run(serve, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "this node is flotilla://flotilla/node/2" in done.stderr.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_without_tls_nothing_is_answered(node: LocalNode) -> None:
    with Client(node.address, timeout_ms=1_000) as client, pytest.raises((DeadlineError, UnavailableError)):
        client.topics()
