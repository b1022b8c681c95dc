"""Whom certificates name."""

import subprocess
import sys
from pathlib import Path

import pytest

from flotilla.security.authority import Authority
from flotilla.security.certificates import owner_of, read_certificate
from flotilla.types.access import NODE, USER, Principal
from flotilla.types.errors import AlreadyExistsError, InvalidArgumentError, UnsupportedError


@pytest.mark.parametrize(
    ("names", "owner"),
    [
        (["flotilla://shop/node/3"], Principal(NODE, "3")),
        (["flotilla://shop/user/alice"], Principal(USER, "alice")),
        (["https://shop.example", "flotilla://shop/user/alice"], Principal(USER, "alice")),
        (["flotilla://other/user/alice", "flotilla://shop/user/bob"], Principal(USER, "bob")),
        ([], None),
        (["flotilla://other/node/3"], None),
        (["flotilla://shop/node/03"], None),
        (["flotilla://shop/node/0"], None),
        (["flotilla://shop/node/3/"], None),
        (["flotilla://shop/user/"], None),
        (["flotilla://shop/user/a b"], None),
        (["flotilla://shop/admin/alice"], None),
        (["flotilla://shop/ca"], None),
        (["Flotilla://shop/node/3"], None),
        (["flotilla://shop/node/3", "flotilla://shop/node/4"], None),
        (["flotilla://shop/node/3", "flotilla://shop/user/alice"], None),
    ],
)
def test_the_owner_is_the_one_name_of_the_cluster(names: list[str], owner: Principal | None) -> None:
    assert owner_of(names, "shop") == owner


def test_an_authority_issues_certificates_that_openssl_accepts(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "ca", "shop")
    node = authority.issue_node(3, ["node3.example", "10.0.0.3", "::1"])
    user = authority.issue_user("alice")
    assert read_certificate(str(node.certificate)).uris == ("flotilla://shop/node/3",)
    assert read_certificate(str(node.certificate)).hosts == ("node3.example", "10.0.0.3", "::1")
    assert read_certificate(str(user.certificate)).uris == ("flotilla://shop/user/alice",)
    assert read_certificate(str(tmp_path / "ca/ca.crt")).is_authority
    for issued, purpose in ((node, "sslserver"), (node, "sslclient"), (user, "sslclient")):
        verify = ["openssl", "verify", "-x509_strict", "-purpose", purpose, "-CAfile", str(tmp_path / "ca/ca.crt")]
        subprocess.run([*verify, str(issued.certificate)], check=True, capture_output=True)
        assert issued.key.stat().st_mode & 0o777 == 0o600
    # A user cannot play a node towards clients.
    verify = ["openssl", "verify", "-purpose", "sslserver", "-CAfile", str(tmp_path / "ca/ca.crt")]
    assert subprocess.run([*verify, str(user.certificate)], check=False, capture_output=True).returncode


def test_nothing_is_overwritten_unless_that_is_asked_for(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path, "shop")
    with pytest.raises(AlreadyExistsError):
        Authority.create(tmp_path, "shop")
    first = authority.issue_user("alice").certificate.read_bytes()
    with pytest.raises(AlreadyExistsError, match="alice"):
        authority.issue_user("alice")
    assert (tmp_path / "alice.crt").read_bytes() == first
    assert authority.issue_user("alice", is_replacing=True).certificate.read_bytes() != first


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "ca", "node1", "a b", "x" * 129])
def test_names_that_no_user_can_have(tmp_path: Path, name: str) -> None:
    authority = Authority.create(tmp_path, "shop")
    with pytest.raises(InvalidArgumentError):
        authority.issue_user(name)


def test_what_is_no_certificate_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InvalidArgumentError, match="not a certificate in PEM form"):
        read_certificate(str(tmp_path / "text"))
    with pytest.raises(InvalidArgumentError, match="No such file"):
        read_certificate(str(tmp_path / "nothing"))
    with pytest.raises(InvalidArgumentError, match=r"ca\.crt"):
        Authority(tmp_path)


def test_without_the_library_a_sentence_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Authority.create(tmp_path, "shop")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(UnsupportedError, match=r"flotilla-mq with the extra \[security\]"):
        read_certificate(str(tmp_path / "ca.crt"))
    with pytest.raises(UnsupportedError, match=r"flotilla-mq with the extra \[security\]"):
        Authority.create(tmp_path / "other", "shop")
