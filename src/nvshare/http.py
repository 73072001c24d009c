"""``/metrics``, ``/healthz`` and ``/readyz`` on one port, served by threads beside a program's event loop."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET6
from socketserver import TCPServer

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

Reasons = Callable[[], Sequence[str]]
_PLAIN = "text/plain; charset=utf-8"
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]*):[0-9]{1,5}")


class AddressError(Exception):
    """The address can't be listened on; the text says why and what to do."""


def is_address(text: str) -> bool:
    """Whether it is HOST:PORT, where HOST may be empty (every address), or an IPv6 address in brackets."""
    return _ADDRESS.fullmatch(text) is not None and int(text.rpartition(":")[2]) <= 65535


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Binds without looking up the host's name, which could take as long as a slow name server does."""
        TCPServer.server_bind(self)


class _ServerV6(_Server):
    address_family = AF_INET6


class HttpServer:
    """The probes and metrics of one program."""

    def __init__(
        self, address: str, registry: CollectorRegistry, unhealthy: Reasons, unready: Reasons, notes: Reasons
    ) -> None:
        """``address`` is HOST:PORT. ``unhealthy`` and ``unready`` say why not, and nothing when all is well.

        ``notes`` are shown with the readiness and don't change it: an unhealthy GPU must not stop an update of all
        nodes. They are called in threads of the server. Raises AddressError when the address can't be listened on.
        """
        pages = {
            "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry)),
            "/healthz": lambda: _verdict(unhealthy(), []),
            "/readyz": lambda: _verdict(unready(), notes()),
        }
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        try:
            self._server = (_ServerV6 if ":" in host else _Server)((host, int(port)), _handler(pages))
        except OSError as error:
            raise AddressError(f"{address}: {error.strerror}: choose another with --metrics-address") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _verdict(reasons: Sequence[str], notes: Sequence[str]) -> tuple[HTTPStatus, str, bytes]:
    status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
    return status, _PLAIN, ("\n".join([*(reasons or ["ok"]), *notes]) + "\n").encode()


def _handler(pages: dict[str, Callable[[], tuple[HTTPStatus, str, bytes]]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        # A client that sends nothing must not hold its thread for ever.
        timeout = 10

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            if page is None:
                allowed = ", ".join(pages)
                status, content_type, body = HTTPStatus.NOT_FOUND, _PLAIN, f"here are {allowed}\n".encode()
            else:
                status, content_type, body = page()
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Probes come every few seconds: no line for each."""

    return Handler
