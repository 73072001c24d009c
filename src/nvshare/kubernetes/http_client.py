"""The HTTP client: httpcore2's, with what all its questions have in common.

httpx2 is built on it. What that adds (redirects, cookies, proxies, compression) no question of ours needs, and it would
stay in memory for as long as a program serves.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

import httpcore2

_CONNECT_SECONDS = 10.0
_KEEPALIVE = (
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""A peer that is gone without a word is noticed within a minute, however long an answer may be silent."""
_FAILURES = (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError, UnicodeError)
"""The last: a host that is none."""


class HttpError(Exception):
    """There was no answer, or none that can be understood; the text says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered."""

    status: int
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether the server did what it was asked for."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def text(self) -> str:
        """In UTF-8, as far as it is that."""
        return self.content.decode(errors="replace")


class Client:
    """Asks one server, which may redirect to no other."""

    def __init__(
        self,
        pool: httpcore2.AsyncConnectionPool,
        server: httpcore2.URL,
        headers: Mapping[str, str],
        connections: AsyncExitStack,
    ) -> None:
        self._pool = pool
        self._server = server
        name = server.host.decode()
        self._headers = {"Host": f"[{name}]:{server.port}" if ":" in name else f"{name}:{server.port}", **headers}
        self._connections = connections

    async def get(self, path: str) -> Answer:
        """What is there."""
        return await self.ask("GET", path)

    async def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        document: Any = None,
        kind: str = "application/json",
    ) -> Answer:
        """One question, with a document of this kind unless it is None."""
        content = None if document is None else json.dumps(document, separators=(",", ":")).encode()
        headers = self._headers if content is None else {**self._headers, "Content-Type": kind}
        answer = await self._pool.request(
            method,
            self._url(path, query),
            headers=_encoded(headers),
            content=content,
            extensions=self._extensions(),
        )
        return Answer(answer.status, answer.content)

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncIterator[tuple[int, AsyncGenerator[bytes]]]:
        """An answer that goes on: its status, and its pieces as they come."""
        url, headers = self._url(path, query), _encoded(self._headers)
        async with self._pool.stream("GET", url, headers=headers, extensions=self._extensions()) as answer:
            yield answer.status, answer.aiter_stream()

    def _url(self, path: str, query: Mapping[str, str] | None) -> httpcore2.URL:
        target = quote(path) + (f"?{urlencode(query)}" if query else "")
        return httpcore2.URL(scheme=self._server.scheme, host=self._server.host, port=self._server.port, target=target)

    def _extensions(self) -> dict[str, Any]:
        return {"timeout": {"connect": _CONNECT_SECONDS}, "trace": self._trace}

    async def _trace(self, what: str, about: Mapping[str, Any]) -> None:
        """Notes each connection: where TLS is not agreed on before the deadline, httpcore2 forgets to close it."""
        if what == "connection.connect_tcp.complete":
            self._connections.push_async_callback(about["return_value"].aclose)


@asynccontextmanager
async def client(
    host: str,
    port: int,
    seconds: float | None = None,
    tls: ssl.SSLContext | None = None,
    headers: Mapping[str, str] | None = None,
) -> AsyncIterator[Client]:
    """Asks there, without ``tls`` in plain text; HttpError where nobody answers, or not within ``seconds``.

    None: as long as the caller waits. Each question has these headers. Its connections end with it: none is kept that
    may be dead when it is needed next.
    """
    try:
        server = httpcore2.URL(scheme="https" if tls else "http", host=host.encode("ascii"), port=port)
        options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *_KEEPALIVE]
        async with (
            AsyncExitStack() as connections,
            asyncio.timeout(seconds),
            httpcore2.AsyncConnectionPool(tls, socket_options=options) as pool,
        ):
            yield Client(pool, server, headers or {}, connections)
    except _FAILURES as error:
        raise HttpError(_words(error)) from error
    except TimeoutError as error:
        raise HttpError(f"no answer within {seconds:g} s") from error


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def _words(error: Exception) -> str:
    """What the first cause says, as far as it is one: what httpcore2 makes of it is general, or empty."""
    if isinstance(error, httpcore2.ConnectTimeout):
        return "no connection in time"
    said = type(error).__name__
    cause: object = error
    while isinstance(cause, Exception) and not isinstance(cause, ExceptionGroup):
        said = getattr(cause, "strerror", None) or str(cause) or said
        # httpcore2 has it as an argument, and where it fails to connect nowhere else.
        cause = cause.__cause__ or next(iter(cause.args), None)
    return said
