"""A transport that uvloop closes without a word ends one connection, not the node."""

from flotilla.peers.connection import PeerConnection


def test_a_write_to_a_closed_transport_cuts_the_connection() -> None:
    class ClosedTransport:
        def writelines(self, buffers: object) -> None:
            raise RuntimeError("the handler is closed")

        def abort(self) -> None:
            self.is_aborted = True

    class Owner:
        def connection_made(self, connection: object) -> None: ...

    connection = PeerConnection(Owner())  # type: ignore[arg-type]
    transport = ClosedTransport()
    connection._transport = transport  # type: ignore[assignment]
    connection.write([b"frame"])
    assert connection.is_closed
    assert transport.is_aborted
    assert connection.reason == "the handler is closed"
    connection.write([b"frame"])
