"""The page `/metrics` of a worker: a small HTTP server in a thread, for Prometheus and nothing else."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from flotilla.client.handler_metrics import CONTENT_TYPE
from flotilla.types.address import Address
from flotilla.types.errors import InvalidArgumentError

#: A scrape sends its few lines at once.
_SILENCE_S_MAX: Final = 10


@contextmanager
def metrics_page(address: Address, render: Callable[[], str]) -> Iterator[Address]:
    """Serves the page until the end of the block; yields where. Raises InvalidArgumentError."""

    class Page(BaseHTTPRequestHandler):
        timeout = _SILENCE_S_MAX

        def do_GET(self) -> None:
            is_known = self.path.partition("?")[0] == "/metrics"
            body = render().encode() if is_known else b"see /metrics\n"
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """A scrape every few seconds is no event."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A scraper that went away is no event either."""

    try:
        server = Server((address.host, address.port), Page)
    except OSError as error:
        raise InvalidArgumentError(f"--metrics-listen {address}: {error.strerror or error}") from None
    thread = threading.Thread(target=server.serve_forever, name="flotilla-metrics", daemon=True)
    thread.start()
    try:
        yield Address(address.host, server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
