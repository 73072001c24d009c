"""Probes and metrics over HTTP, in an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import generate_latest

from nvshare.http import AddressError, HttpServer, is_address
from tests.polling import until

_GET_METRICS = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"


class Pages:
    """A server whose reasons a test sets."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.unready: list[str] = []
        self.notes: list[str] = []
        self.metrics_page = b""
        """Shown instead of the registry."""
        self.asked = 0
        """How often the metrics were asked for."""
        self.server = HttpServer("127.0.0.1:0", self.metrics, lambda: self.unready, lambda: self.notes)

    async def metrics(self) -> bytes:
        self.asked += 1
        return self.metrics_page or generate_latest(self.registry)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.server.port)

    async def ask(self, request: bytes) -> bytes:
        """Everything that is answered to these bytes."""
        reader, writer = await self.connect()
        writer.write(request)
        try:
            return await reader.read()
        finally:
            writer.close()

    async def get(self, path: str) -> tuple[int, str]:
        answer = await self.ask(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
        head, _, body = answer.partition(b"\r\n\r\n")
        assert f"content-length: {len(body)}".encode() in head.lower()
        return int(head.split()[1]), body.decode()


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    served = Pages()
    await served.server.start()
    yield served
    served.server.stop()


async def test_all_is_well(pages: Pages) -> None:
    """Both probes say ok."""
    assert await pages.get("/healthz") == (200, "ok\n")
    assert await pages.get("/readyz") == (200, "ok\n")


async def test_reasons_are_told(pages: Pages) -> None:
    """A probe that fails says why, one reason a line; the other is not touched."""
    pages.unready = ["no library", "no scheduler"]
    assert await pages.get("/readyz") == (503, "no library\nno scheduler\n")
    assert await pages.get("/healthz") == (200, "ok\n")
    pages.notes = ["GPU-a: XID 79"]
    assert await pages.get("/readyz") == (503, "no library\nno scheduler\nGPU-a: XID 79\n")
    pages.unready = []
    assert await pages.get("/readyz") == (200, "ok\nGPU-a: XID 79\n")


async def test_metrics(pages: Pages) -> None:
    """The registry's figures of now, in Prometheus' format."""
    gauge = Gauge("height", "How high.", registry=pages.registry)
    for height in (1.5, 2.5):
        gauge.set(height)
        status, text = await pages.get("/metrics?name[]=height")
        assert status == 200
        assert f"\nheight {height}\n" in text


@pytest.fixture
async def faults(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the event loop reports: a scheduler logs each as a bug."""
    said: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: said.append(context["message"]))
    return said


def _bytes_taken_unread() -> int:
    """How much a connection takes of which nothing is read."""
    taken = 0
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        sender, _address = server.accept()
        with sender, contextlib.suppress(BlockingIOError):
            sender.setblocking(False)
            while True:
                taken += sender.send(bytes(65536))
    return taken


def _read_side(writer: asyncio.StreamWriter) -> asyncio.ReadTransport:
    assert isinstance(writer.transport, asyncio.Transport)
    return writer.transport


async def test_more_than_a_socket_takes(pages: Pages, faults: list[str]) -> None:
    """Who reads the rest late gets all of it; neither that, nor who leaves or does not read, is a bug.

    More connections than are served at once: nothing may be left of those before.
    """
    taken = _bytes_taken_unread()
    for more in (16_384, 32_768, 49_152):
        page = bytes(taken + more)
        pages.metrics_page = page
        many = [await pages.connect() for _ in range(20)]
        for _reader, writer in many:
            _read_side(writer).pause_reading()
            writer.write(_GET_METRICS)
        await until(lambda: pages.asked == 20, "all are answered")
        pages.asked = 0
        early, late, never = many[:6], many[6:14], many[14:]
        for _reader, writer in early:
            writer.transport.abort()
        for reader, writer in late:
            _read_side(writer).resume_reading()
            assert (await reader.read()).endswith(b"\r\n\r\n" + page)
        assert await pages.get("/healthz") == (200, "ok\n")
        for _reader, writer in late + never:
            writer.transport.abort()
    pages.server.stop()
    await until(lambda: len(asyncio.all_tasks()) == 1, "nobody is served any more")
    gc.collect()
    assert not faults


async def test_other_pages(pages: Pages) -> None:
    """An unknown page says which there are."""
    status, text = await pages.get("/")
    assert status == 404
    assert "/metrics, /healthz, /readyz" in text


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (b"HEAD /healthz HTTP/1.1\r\nHost: here\r\n\r\n", b"HTTP/1.1 200 "),
        (b"POST /healthz HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 405 "),
        (b"nonsense\r\n\r\n", b"HTTP/1.1 400 "),
        (b"GET /healthz HTTP/1.1\r\nHost: here\r\nX: " + 20000 * b"x", b"HTTP/1.1 431 "),
        (b"GET /healthz HTTP/1.0\r\n\r\n", b"HTTP/1.1 200 "),
    ],
)
async def test_other_requests(pages: Pages, request_: bytes, answer: bytes) -> None:
    """Each gets its answer, and the connection ends."""
    assert (await pages.ask(request_)).startswith(answer)


async def test_the_oldest_makes_room(pages: Pages) -> None:
    """However many connect and say nothing: the next one is served, and the oldest one is gone."""
    silent = [await pages.connect() for _ in range(40)]
    assert await pages.get("/healthz") == (200, "ok\n")
    assert await silent[0][0].read() == b""
    silent[-1][1].write(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n")
    assert (await silent[-1][0].read()).endswith(b"ok\n")
    for _reader, writer in silent:
        writer.close()


async def test_stopped(pages: Pages) -> None:
    """Who is connected is told by the end of the connection, and nobody can connect any more."""
    reader, writer = await pages.connect()
    assert await pages.get("/healthz") == (200, "ok\n")
    port = pages.server.port
    pages.server.stop()
    assert await reader.read() == b""
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


def test_address_in_use() -> None:
    """A taken port is an error at once, not a server that nobody reaches."""

    async def nothing() -> bytes:
        return b""

    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(AddressError, match=r"in use.*--metrics-address"),
    ):
        HttpServer(f"127.0.0.1:{taken.getsockname()[1]}", nothing, list, list)


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("0.0.0.0:9402", True),
        (":9402", True),
        ("localhost:0", True),
        ("[::1]:9402", True),
        ("9402", False),
        ("::1:9402", False),
        ("host:65536", False),
        ("host:", False),
        ("two words:1", False),
    ],
)
def test_form_of_an_address(text: str, valid: bool) -> None:
    """HOST:PORT; an IPv6 address needs brackets, or nobody knows where it ends."""
    assert is_address(text) is valid
