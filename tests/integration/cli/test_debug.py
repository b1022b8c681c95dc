"""The bundle for support: what it has, and that no payload and no secret is in it."""

import json
import tarfile
from pathlib import Path

from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.testing import LocalBroker
from flotilla.types.address import Address
from tests.integration.ports import free_ports

#: In files that settings and variables name.
PLANTED = b"planted-in-a-file-0123456789abcdef"
SECRETS = (
    b"a payload that nobody sees",
    b"a key that nobody sees",
    b"a password that nobody sees",
    b"a header value",
    PLANTED,
)


def bundle(broker: str, folder: Path, *args: object) -> dict[str, bytes]:
    out = folder / "bundle.tgz"
    secret = folder / "planted"
    secret.write_bytes(PLANTED)
    secret.chmod(0o600)
    files = ("JOIN_SECRET", "JOIN_TOKEN", "TLS_KEY", "TOKEN_KEYS", "PASSWORD_FILE")
    named = {f"FLOTILLA_{name}": str(secret) for name in files}
    result = CliRunner(env={"FLOTILLA_SERVERS": broker, "FLOTILLA_USER": "ann", **named}).invoke(
        app, ["debug", "bundle", "--out", str(out), *map(str, args)]
    )
    assert result.exit_code == 0, result.output
    assert out.stat().st_mode & 0o077 == 0
    with tarfile.open(out) as tar:
        files = {member.name.removeprefix("flotilla-debug/"): tar.extractfile(member) for member in tar.getmembers()}
        return {name: file.read() for name, file in files.items() if file is not None}


def test_a_bundle_has_everything_but_payloads_and_secrets(tmp_path: Path) -> None:
    payload, key, password, header, _ = SECRETS
    log = tmp_path / "node.log"
    log.write_bytes(b"early\n" * 1_000_000 + b"the last line\n")
    with LocalBroker(http_listen=Address("127.0.0.1", free_ports(1)[0])) as broker, broker.client() as client:
        client.create_topic("orders")
        client.produce("orders", payload, key=key, headers={"h": header})
        client.schedules.create("nightly", "orders", payload, cron="0 3 * * *", key=key, headers={"h": header})
        client.admin.users.create("ann", password.decode())
        with client.queue("orders", group="workers") as consumer:
            (message,) = consumer.poll()
            message.nack(reason="a reason")
            found = bundle(broker.address, tmp_path, "--log", log, "--data-dir", tmp_path / "nowhere")
    assert json.loads(found["cluster.json"])["topics"][0]["name"] == "orders"
    assert json.loads(found["nodes/1/node.json"])["node"] == 1
    assert b"flotilla_" in found["nodes/1/metrics.txt"]
    assert "workers" in json.loads(found["groups.json"])["orders"]
    assert json.loads(found["schedules.json"])[0]["name"] == "nightly"
    assert json.loads(found["versions.json"])["flotilla"]
    settings = json.loads(found["settings.json"])
    assert settings["node_id"]["value"] == 1
    assert settings["join_secret"]["value"] == str(tmp_path / "planted")
    assert found["logs/0-node.log"].endswith(b"the last line\n")
    assert len(found["logs/0-node.log"]) <= 1 << 20
    assert found["checks/0.json"].startswith(b"not available: ")
    for name, content in found.items():
        assert not [secret for secret in SECRETS if secret in content or secret.hex().encode() in content], name


def test_a_cluster_that_is_down_gets_a_bundle_too(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    found = bundle(f"127.0.0.1:{port}", tmp_path, "--timeout", "200ms")
    assert found["cluster.json"].startswith(b"not available: ")
    assert json.loads(found["settings.json"])
