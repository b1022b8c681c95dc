"""TLS on a blocking socket, against the library's own."""

import socket
import ssl
import threading
from collections.abc import Callable

import pytest

from flotilla.security.blocking_tls import CHUNK_BYTES, BlockingTls
from tests.unit.security.issuing import node_files, trusting


def against(serve: Callable[[ssl.SSLSocket], None], connect: Callable[[socket.socket], None]) -> None:
    """Runs `serve` in a thread with the accepting side, and `connect` with the other one."""
    ours, theirs = socket.socketpair()
    files = node_files(1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)

    def run() -> None:
        try:
            with context.wrap_socket(theirs, server_side=True) as accepted:
                serve(accepted)
        except OSError:
            theirs.close()

    serving = threading.Thread(target=run)
    serving.start()
    try:
        ours.settimeout(10)
        connect(ours)
    finally:
        ours.close()
        serving.join(10)
    assert not serving.is_alive()


def context_of(ca: object) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(ca))


@pytest.mark.parametrize("size", [1, CHUNK_BYTES, 2 * CHUNK_BYTES + 3])
def test_what_is_sent_comes_back_and_the_end_is_seen(size):
    sent = bytes(range(256)) * (size // 256) + bytes(size % 256)

    def serve(accepted: ssl.SSLSocket) -> None:
        received = b""
        while len(received) < size:
            received += accepted.recv(1 << 16)
        accepted.sendall(received)
        accepted.unwrap()

    def connect(below: socket.socket) -> None:
        connection = BlockingTls(below, context_of(trusting().ca), "localhost")
        connection.sendall(sent)
        received = b""
        while len(received) < size:
            received += connection.recv(1 << 16)
        assert received == sent
        assert connection.recv(10) == b""

    against(serve, connect)


def test_a_cut_connection_has_ended():
    def connect(below: socket.socket) -> None:
        connection = BlockingTls(below, context_of(trusting().ca), "localhost")
        assert connection.recv(10) == b""

    against(lambda accepted: accepted.shutdown(socket.SHUT_RDWR), connect)


def test_a_stranger_is_refused():
    def connect(below: socket.socket) -> None:
        with pytest.raises(ssl.SSLCertVerificationError):
            BlockingTls(below, context_of(trusting(authority="other").ca), "localhost")

    against(lambda accepted: None, connect)
