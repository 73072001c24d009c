"""Probes and metrics over HTTP."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Gauge

from nvshare.http import AddressError, HttpServer, is_address


class Pages:
    """A server whose reasons a test sets."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.unhealthy: list[str] = []
        self.unready: list[str] = []
        self.notes: list[str] = []
        self.server = HttpServer(
            "127.0.0.1:0", self.registry, lambda: self.unhealthy, lambda: self.unready, lambda: self.notes
        )
        self.server.start()

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.server.port}{path}", timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@pytest.fixture
def pages() -> Iterator[Pages]:
    served = Pages()
    yield served
    served.server.stop()


def test_all_is_well(pages: Pages) -> None:
    """Both probes say ok."""
    assert pages.get("/healthz") == (200, "ok\n")
    assert pages.get("/readyz") == (200, "ok\n")


def test_reasons_are_told(pages: Pages) -> None:
    """A probe that fails says why, one reason a line; the other is not touched."""
    pages.unready = ["no library", "no scheduler"]
    assert pages.get("/readyz") == (503, "no library\nno scheduler\n")
    assert pages.get("/healthz") == (200, "ok\n")
    pages.notes = ["GPU-a: XID 79"]
    assert pages.get("/readyz") == (503, "no library\nno scheduler\nGPU-a: XID 79\n")
    pages.unready = []
    assert pages.get("/readyz") == (200, "ok\nGPU-a: XID 79\n")
    pages.unhealthy = ["stuck"]
    assert pages.get("/healthz") == (503, "stuck\n")


def test_metrics(pages: Pages) -> None:
    """The registry's figures of now, in Prometheus' format."""
    gauge = Gauge("height", "How high.", registry=pages.registry)
    for height in (1.5, 2.5):
        gauge.set(height)
        status, text = pages.get("/metrics")
        assert status == 200
        assert f"\nheight {height}\n" in text


def test_other_pages(pages: Pages) -> None:
    """An unknown page says which there are."""
    status, text = pages.get("/")
    assert status == 404
    assert "/metrics, /healthz, /readyz" in text


def test_address_in_use() -> None:
    """A taken port is an error at once, not a server that nobody reaches."""
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(AddressError, match=r"in use.*--metrics-address"),
    ):
        HttpServer(f"127.0.0.1:{taken.getsockname()[1]}", CollectorRegistry(), list, list, list)


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
