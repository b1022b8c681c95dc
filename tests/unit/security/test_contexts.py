"""Files of certificates: refused with a sentence, and read again when they change."""

import shutil
import subprocess
from pathlib import Path

import pytest

from flotilla.security.authority import Authority
from flotilla.security.client_tls import Tls, fresh_context, tls_of_environment
from flotilla.security.endpoint_tls import TlsFiles
from flotilla.security.node_tls import NodeTls
from flotilla.types.errors import InvalidArgumentError
from tests.unit.security.issuing import CLUSTER, files_in, folder_of, node_files, user_tls


def copied(files: TlsFiles, folder: Path) -> TlsFiles:
    for file in files:
        shutil.copy2(file, folder)
    return TlsFiles(*(str(folder / Path(file).name) for file in files))


def test_files_that_will_not_do_are_named(tmp_path: Path) -> None:
    files = copied(node_files(1), tmp_path)
    with pytest.raises(InvalidArgumentError, match=r"names flotilla://flotilla/node/1, and this node is .*node/2"):
        NodeTls(files, CLUSTER, 2)
    with pytest.raises(InvalidArgumentError, match="this node is flotilla://shop/node/1"):
        NodeTls(files, "shop", 1)
    with pytest.raises(InvalidArgumentError, match="do not belong together"):
        NodeTls(files._replace(key=node_files(2).key), CLUSTER, 1)
    with pytest.raises(InvalidArgumentError, match="No such file"):
        NodeTls(files._replace(ca=str(tmp_path / "none")), CLUSTER, 1)
    Path(files.key).chmod(0o640)
    with pytest.raises(InvalidArgumentError, match="can be read by others than its owner: chmod 600"):
        NodeTls(files, CLUSTER, 1)


def test_an_encrypted_key_is_refused_and_not_asked_for(tmp_path: Path) -> None:
    files = copied(node_files(1), tmp_path)
    encrypt = ["openssl", "ec", "-aes128", "-passout", "pass:secret", "-in", node_files(1).key, "-out", files.key]
    subprocess.run(encrypt, check=True, capture_output=True)
    with pytest.raises(InvalidArgumentError, match="is encrypted"):
        NodeTls(files, CLUSTER, 1)


def test_a_certificate_and_its_key_go_together() -> None:
    with pytest.raises(InvalidArgumentError, match="go together"):
        Tls("ca.crt", "alice.crt")


def test_the_environment_of_clients() -> None:
    assert tls_of_environment({}) is None
    given = {"FLOTILLA_CLIENT_CA": "a", "FLOTILLA_CLIENT_CERTIFICATE": "b", "FLOTILLA_CLIENT_KEY": "c"}
    assert tls_of_environment(given) == Tls("a", "b", "c")


def test_a_client_reads_files_again_that_have_changed(tmp_path: Path) -> None:
    tls = user_tls("alice")
    copies = [shutil.copy2(file, tmp_path) for file in (tls.ca, tls.certificate, tls.key)]
    fresh = fresh_context(Tls(*copies))
    first = fresh.get()
    assert fresh.get() is first
    Path(copies[1]).write_text("half a file")
    assert fresh.get() is first
    shutil.copy2(tls.certificate, copies[1])
    assert fresh.get() is not first


def look(tls: NodeTls, *, is_forced: bool = False) -> str | None:
    take = tls.read(is_forced=is_forced)
    return None if take is None else take()


def test_a_node_reads_files_again_and_keeps_what_works(tmp_path: Path) -> None:
    shutil.copytree(folder_of(CLUSTER), tmp_path, dirs_exist_ok=True)
    Authority(tmp_path).issue_node(7, ["localhost"], days=10)
    tls = NodeTls(files_in(tmp_path, "node7"), CLUSTER, 7)
    before = tls.certificate.expires_s
    assert look(tls) is None
    assert look(tls, is_forced=True) == ""
    Authority(tmp_path).issue_node(7, ["localhost"], days=20, is_replacing=True)
    assert look(tls) == ""
    assert look(tls) is None
    assert tls.certificate.expires_s > before
    # The certificate of another node, and then rubbish: told once each, and the old one stays.
    kept = tls.certificate
    shutil.copy2(node_files(1).certificate, tls.files.certificate)
    assert "this node is flotilla://flotilla/node/7" in (look(tls) or "")
    assert look(tls) is None
    Path(tls.files.certificate).write_text("rubbish")
    assert "not a certificate" in (look(tls) or "")
    assert tls.certificate is kept
    assert b"BEGIN CERTIFICATE" in tls.pem().certificate
