"""Certificates for tests: an authority with a node and a user, made once, and others that will not do."""

import atexit
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from flotilla.security import authority as authority_module
from flotilla.security.authority import Authority
from flotilla.security.client_tls import Tls
from flotilla.security.endpoint_tls import TlsFiles
from flotilla.security.node_tls import NodeTls

CLUSTER = "flotilla"
HOSTS = ("localhost", "127.0.0.1")
YEAR_MS = 365 * 24 * 60 * 60 * 1000


@cache
def _root() -> Path:
    root = Path(mkdtemp(prefix="flotilla-certificates-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


def folder_of(cluster: str = CLUSTER, authority: str = "") -> Path:
    """A folder with the authority of a cluster; of another name is another authority for the same cluster."""
    folder = _root() / f"{cluster}-{authority}"
    if not folder.exists():
        Authority.create(folder, cluster)
    return folder


def node_files(node: int, cluster: str = CLUSTER, authority: str = "") -> TlsFiles:
    folder = folder_of(cluster, authority)
    files = files_in(folder, f"node{node}")
    if not Path(files.certificate).exists():
        Authority(folder).issue_node(node, HOSTS)
    return files


def user_tls(name: str, cluster: str = CLUSTER, authority: str = "") -> Tls:
    folder = folder_of(cluster, authority)
    files = files_in(folder, name)
    if not Path(files.certificate).exists():
        Authority(folder).issue_user(name)
    return Tls(files.ca, files.certificate, files.key)


def trusting(cluster: str = CLUSTER, authority: str = "") -> Tls:
    """Of a client that shows no certificate."""
    return Tls(str(folder_of(cluster, authority) / "ca.crt"))


def files_in(folder: Path, stem: str) -> TlsFiles:
    return TlsFiles(str(folder / f"{stem}.crt"), str(folder / f"{stem}.key"), str(folder / "ca.crt"))


def node_tls(node: int, cluster: str = CLUSTER, authority: str = "", client_certificates: str = "off") -> NodeTls:
    return NodeTls(node_files(node, cluster, authority), cluster, node, client_certificates)


@contextmanager
def years_ago(years: int) -> Iterator[None]:
    """What is issued meanwhile was issued then."""
    now_ms = authority_module.now_ms
    authority_module.now_ms = lambda: now_ms() - years * YEAR_MS
    try:
        yield
    finally:
        authority_module.now_ms = now_ms


def expired_files(node: int) -> TlsFiles:
    """Of a node, by the authority that all others are of; they expired a year ago."""
    folder = _root() / "expired"
    if not folder.exists():
        shutil.copytree(folder_of(), folder)
    with years_ago(2):
        Authority(folder).issue_node(node, HOSTS, is_replacing=True)
    return files_in(folder, f"node{node}")
