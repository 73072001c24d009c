"""Serves ``/metrics``, ``/healthz`` and ``/readyz`` on one port, in a program's event loop.

h11 knows HTTP. This module knows what a page is, and keeps time and descriptors for the program: a connection asks for
one page and has a few seconds for it. When there are too many connections the oldest one is closed.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus

import h11
from prometheus_client.exposition import CONTENT_TYPE_LATEST

Reasons = Callable[[], Sequence[str]]
_SECONDS = 10.0
"""How long a connection may take."""
_ACCEPTED = 8
"""How many are accepted at most in one pass of the event loop, and how many wait to be."""
_DESCRIPTORS = 48
"""Enough for more connections than probe and scrape one program."""
_READ_BYTES = 4096
_REQUEST_BYTES = 16384
_PLAIN = "text/plain; charset=utf-8"
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]*):[0-9]{1,5}")


class AddressError(Exception):
    """The address can't be listened on; the text says why and what to do."""


def is_address(text: str) -> bool:
    """Whether it is HOST:PORT, where HOST may be empty (every address), or an IPv6 address in brackets."""
    return _ADDRESS.fullmatch(text) is not None and int(text.rpartition(":")[2]) <= 65535


class HttpServer:
    """The probes and metrics of one program."""

    def __init__(self, address: str, metrics: Callable[[], Awaitable[bytes]], unready: Reasons, notes: Reasons) -> None:
        """``address`` is HOST:PORT. ``metrics`` are in Prometheus' format.

        ``unready`` says why not, and nothing when all is well. ``notes`` are shown with that and don't change it: an
        unhealthy GPU must not stop an update of all nodes. Who gets an answer at all knows that the program's event
        loop runs: that is health. Raises AddressError when the address can't be listened on.
        """
        self._metrics = metrics
        self._unready = unready
        self._notes = notes
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, int(port)))
            # Now, because two may be bound to one address until one of them listens.
            self._socket.listen(_ACCEPTED)
        except OSError as error:
            self._socket.close()
            raise AddressError(f"{address}: {error.strerror}: choose another with --metrics-address") from error
        self._server: asyncio.Server | None = None
        self._most = 0
        self._open: dict[asyncio.WriteTransport, None] = {}

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    async def start(self, descriptors: int = _DESCRIPTORS) -> None:
        """Answers from now on, with so many descriptors; with very few, one connection at a time is served."""
        self._most = max(descriptors - _ACCEPTED, 1)
        self._server = await asyncio.start_server(self._serve, sock=self._socket, backlog=_ACCEPTED)

    def stop(self) -> None:
        """Answers no more."""
        if self._server is None:
            self._socket.close()
            return
        self._server.close()
        for transport in self._open:
            transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        transport = writer.transport
        while len(self._open) >= self._most:
            # It has had the longest time to ask; who asks honestly does so at once.
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.abort()
        self._open[transport] = None
        # All is waited for, so that aborting loses nothing. Who closes may not abort any more: a transport that closed
        # when the last of its bytes went has forgotten its loop.
        transport.set_write_buffer_limits(high=0)
        try:
            async with asyncio.timeout(_SECONDS):
                await self._answer(reader, writer)
        except (OSError, TimeoutError):
            pass
        finally:
            transport.abort()
            self._open.pop(transport, None)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_REQUEST_BYTES)
        head = False
        try:
            while (event := connection.next_event()) is h11.NEED_DATA:
                connection.receive_data(await reader.read(_READ_BYTES))
            if not isinstance(event, h11.Request):
                return
            head = event.method == b"HEAD"
            status, content_type, body = await self._page(event)
        except h11.RemoteProtocolError as error:
            status, content_type, body = HTTPStatus(error.error_status_hint), _PLAIN, f"{error}\n".encode()
        headers = [("Content-Type", content_type), ("Content-Length", str(len(body))), ("Connection", "close")]
        begin = h11.Response(status_code=status, headers=headers, reason=status.phrase)
        for answer in (begin, h11.Data(data=b"" if head else body), h11.EndOfMessage()):
            writer.write(connection.send(answer) or b"")
        await writer.drain()

    async def _page(self, request: h11.Request) -> tuple[HTTPStatus, str, bytes]:
        if request.method not in (b"GET", b"HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, _PLAIN, b"only GET\n"
        match request.target.partition(b"?")[0]:
            case b"/metrics":
                return HTTPStatus.OK, CONTENT_TYPE_LATEST, await self._metrics()
            case b"/healthz":
                return _verdict([], [])
            case b"/readyz":
                return _verdict(self._unready(), self._notes())
            case _:
                return HTTPStatus.NOT_FOUND, _PLAIN, b"here are /metrics, /healthz, /readyz\n"


def _verdict(reasons: Sequence[str], notes: Sequence[str]) -> tuple[HTTPStatus, str, bytes]:
    status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
    return status, _PLAIN, ("\n".join([*(reasons or ["ok"]), *notes]) + "\n").encode()
