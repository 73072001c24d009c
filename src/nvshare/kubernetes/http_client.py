"""The HTTP client: httpx2's, with what all its questions have in common."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import httpx2

_CONNECT_SECONDS = 10.0
_KEEPALIVE = (
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""A peer that is gone without a word is noticed within a minute, however long an answer may be silent."""


class HttpError(Exception):
    """There was no answer, or none that can be understood; the text says why."""


@asynccontextmanager
async def client(
    host: str, port: int, seconds: float | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[httpx2.AsyncClient]:
    """Asks there, without ``tls`` in plain text; HttpError where nobody answers, or not within ``seconds``.

    None: as long as the caller waits. Its connections end with it: none is kept that may be dead when it is needed
    next.
    """
    transport = httpx2.AsyncHTTPTransport(
        # Given always: httpx2 would read all authorities that the system trusts, for each question.
        verify=tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        socket_options=[(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *_KEEPALIVE],
    )
    times = httpx2.Timeout(None, connect=_CONNECT_SECONDS)
    try:
        base = httpx2.URL(scheme="https" if tls else "http", host=host, port=port)
        async with (
            AsyncExitStack() as connections,
            asyncio.timeout(seconds),
            # No proxy and no password of the environment: the cluster's own addresses are asked.
            httpx2.AsyncClient(base_url=base, transport=transport, timeout=times, trust_env=False) as made,
        ):
            made.event_hooks = {"request": [partial(_trace, connections)]}
            yield made
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise HttpError(_words(error)) from error
    except TimeoutError as error:
        raise HttpError(f"no answer within {seconds:g} s") from error


async def _trace(connections: AsyncExitStack, request: httpx2.Request) -> None:
    """Notes the request's connection: where TLS is not agreed on before the deadline, httpx2 forgets to close it."""

    async def happened(what: str, about: Mapping[str, Any]) -> None:
        if what == "connection.connect_tcp.complete":
            connections.push_async_callback(about["return_value"].aclose)

    request.extensions["trace"] = happened


def _words(error: Exception) -> str:
    """What the first cause says, as far as it is one: what httpx2 makes of it is general, or empty."""
    if isinstance(error, httpx2.ConnectTimeout):
        return "no connection in time"
    said = type(error).__name__
    cause: object = error
    while isinstance(cause, Exception) and not isinstance(cause, ExceptionGroup):
        said = getattr(cause, "strerror", None) or str(cause) or said
        # httpcore2 has it as an argument, and where it fails to connect nowhere else.
        cause = cause.__cause__ or next(iter(cause.args), None)
    return said
