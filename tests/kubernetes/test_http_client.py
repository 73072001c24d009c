"""What the HTTP client makes of servers that do not answer as they should."""

from __future__ import annotations

import asyncio
import ctypes
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from nvshare.kubernetes import http_client
from nvshare.kubernetes.http_client import HttpError, client

WAIT = 30.0
BEGUN = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
_SO_ATTACH_FILTER = 26
_RETURN = 6
"""Of a packet filter's program: so many bytes of the packet pass."""

Answering = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def answering(answer: Answering) -> AsyncIterator[tuple[int, list[str]]]:
    """A server that reads requests of one packet; its port, and their first lines."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.read(4096)).decode().partition("\r\n")[0])
        try:
            await answer(writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], asked
    finally:
        server.close()


async def body(port: int, seconds: float | None = None) -> bytes:
    """What is there."""
    async with asyncio.timeout(WAIT), client("127.0.0.1", port, seconds) as asked:
        return (await asked.get("/")).content


def words(*said: bytes) -> Answering:
    """A server's that says this and ends the connection."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        for each in said:
            writer.write(each)
            await writer.drain()

    return answer


async def broken_off(writer: asyncio.StreamWriter) -> None:
    """A connection that is reset in the middle of an answer."""
    writer.write(BEGUN)
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def lose_all(taking: socket.socket) -> None:
    """No packet reaches a socket any more; PermissionError in a sandbox that lets nobody but root filter packets."""
    nothing = ctypes.create_string_buffer(struct.pack("HBBI", _RETURN, 0, 0, 0))
    taking.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(nothing)))


@pytest.fixture
def filtering() -> None:
    """The test is skipped where packets can't be filtered."""
    with socket.socket() as probe:
        try:
            lose_all(probe)
        except PermissionError:
            pytest.skip("this sandbox lets nobody but root filter packets")


async def unreachable(writer: asyncio.StreamWriter) -> None:
    """A peer that is gone without a word: nothing that is sent to it is acknowledged."""
    writer.write(BEGUN)
    await writer.drain()
    lose_all(writer.get_extra_info("socket"))
    await asyncio.sleep(WAIT)


async def dripping(writer: asyncio.StreamWriter) -> None:
    """An answer that never stands still, and never ends."""
    writer.write(BEGUN)
    while not writer.is_closing():
        writer.write(b"1\r\nx\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (words(), "disconnected"),
        (words(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), "illegal status line"),
        (words(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), "closed connection"),
        (words(BEGUN), "closed connection"),
        (words(BEGUN, b"nonsense\r\n"), "illegal chunk header"),
        (broken_off, "reset"),
    ],
)
async def test_answers_that_break_off(answer: Answering, said: str) -> None:
    """None passes for a whole one; the error says what happened."""
    async with answering(answer) as (port, _):
        with pytest.raises(HttpError, match=f"(?i){said}"):
            await body(port)


async def test_nobody_there() -> None:
    """The error names it."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(HttpError, match=f"Connect call failed.*{closed.getsockname()[1]}"):
            await body(closed.getsockname()[1])


@pytest.mark.parametrize("host", ["no host", "127.0.0.1/24", "", "[", "höst", "a" * 70000])
async def test_an_address_that_is_none(host: str) -> None:
    """It is an error like others, of which something is said."""
    with pytest.raises(HttpError, match=r"\w{3}"):
        async with client(host, 1, WAIT) as asked:
            await asked.get("/")


@pytest.mark.usefixtures("filtering")
@pytest.mark.parametrize("answer", [unreachable, dripping])
async def test_the_deadline(answer: Answering) -> None:
    """It counts for the whole answer, also for one that goes on and on."""
    async with answering(answer) as (port, _):
        with pytest.raises(HttpError, match=r"no answer within 0\.3 s"):
            await body(port, 0.3)


@pytest.mark.usefixtures("filtering")
async def test_a_peer_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is noticed in the silence of an answer that may take as long as it likes."""
    quick = [(level, option, 1) for level, option, _ in http_client._KEEPALIVE]
    monkeypatch.setattr(http_client, "_KEEPALIVE", quick)
    async with answering(unreachable) as (port, _):
        with pytest.raises(HttpError, match="timed out"):
            await body(port)


async def test_no_connection_is_left() -> None:
    """Not even one on which TLS was being agreed on when the time was over."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        ended.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    with pytest.raises(HttpError, match="no answer within"):
        async with client("127.0.0.1", server.sockets[0].getsockname()[1], 0.3, ssl.create_default_context()) as asked:
            await asked.get("/")
    async with asyncio.timeout(WAIT):
        await ended.wait()
    server.close()


async def test_the_host_is_named() -> None:
    """As HTTP wants it: with the port, an address with colons in brackets."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    for host, name in (("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")):
        server = await asyncio.start_server(serve, host, 0)
        port = server.sockets[0].getsockname()[1]
        async with client(host, port, WAIT) as here:
            assert (await here.ask("GET", "/a b", {"q": "c&d"})).is_success
        server.close()
        lines = asked.pop().split(b"\r\n")
        assert lines[0] == b"GET /a%20b?q=c%26d HTTP/1.1"
        assert f"Host: {name}:{port}".encode() in lines


async def test_no_redirect_is_followed() -> None:
    """The token is for the server that is asked, and for no other."""
    async with (
        answering(words(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as (other, asked),
        answering(words(f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{other}/\r\n\r\n".encode())) as (port, _),
        client("127.0.0.1", port, WAIT) as here,
    ):
        assert (await here.get("/")).status == 302
    assert asked == []


async def test_proxies_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are for programs that ask elsewhere."""
    async with (
        answering(words(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as (proxy, asked),
        answering(words(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere")) as (port, _),
    ):
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy}")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        assert await body(port, WAIT) == b"here"
    assert asked == []
