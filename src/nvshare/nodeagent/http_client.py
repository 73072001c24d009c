"""HTTP requests in the event loop. h11 knows HTTP; each request has a connection of its own, which ends with it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import h11

_READ_BYTES = 1 << 16
_CONNECT_SECONDS = 10.0
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
"""A peer that is gone without a word is noticed within a minute, however long an answer may be silent."""


class HttpError(Exception):
    """There was no answer, or none that can be understood; the text says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where to ask."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    """None: without encryption."""

    @property
    def authority(self) -> str:
        """As URLs have it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Answer:
    """The answer to a request; its body can be read once."""

    def __init__(self, status: int, connection: h11.Connection, reader: asyncio.StreamReader) -> None:
        self.status = status
        self._connection = connection
        self._reader = reader

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The body, as it comes; HttpError when it breaks off."""
        while True:
            event = await _next_event(self._connection, self._reader)
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return

    async def whole(self) -> bytes:
        """The body, once it has ended."""
        return b"".join([piece async for piece in self.pieces()])


@asynccontextmanager
async def answered(place: Place, request: Request) -> AsyncIterator[Answer]:
    """Asks; HttpError where nobody answers. It may wait without end for an answer: that is for the caller to bound."""
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(place.host, place.port, ssl=place.tls)
    except OSError as error:
        raise HttpError(_words(error)) from error
    try:
        _keep_alive(writer)
        connection = h11.Connection(h11.CLIENT)
        headers = {"Host": place.authority, "Content-Length": str(len(request.body)), **request.headers}
        asked = h11.Request(method=request.method, target=request.target, headers=list(headers.items()))
        for part in (asked, h11.Data(data=request.body), h11.EndOfMessage()):
            writer.write(connection.send(part) or b"")
        try:
            await writer.drain()
        except OSError as error:
            raise HttpError(_words(error)) from error
        while not isinstance(event := await _next_event(connection, reader), h11.Response):
            pass
        yield Answer(event.status_code, connection, reader)
    finally:
        writer.transport.abort()


async def fetch(place: Place, request: Request, seconds: float) -> tuple[int, bytes]:
    """Status and body of the answer; HttpError where there is none within ``seconds``."""
    try:
        async with asyncio.timeout(seconds), answered(place, request) as answer:
            return answer.status, await answer.whole()
    except TimeoutError as error:
        raise HttpError(f"no answer within {seconds:g} s") from error


async def _next_event(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Event:
    try:
        while (event := connection.next_event()) is h11.NEED_DATA:
            connection.receive_data(await reader.read(_READ_BYTES))
    except (OSError, h11.RemoteProtocolError) as error:
        raise HttpError(_words(error)) from error
    if not isinstance(event, h11.Event) or isinstance(event, h11.ConnectionClosed):
        raise HttpError("the connection ended before the answer")
    return event


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _words(error: Exception) -> str:
    """Of an error that may have none."""
    if isinstance(error, TimeoutError):
        return "no connection in time"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
