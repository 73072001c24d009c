"""Fixtures for tests of the node agent: an API server, a scheduler that only listens, a device plugin's pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from nvshare.admin import admin_pb2, admin_pb2_grpc
from nvshare.http import HttpServer
from nvshare.paths import RunDir
from tests.kubernetes.conftest import account, at_work, cluster, lines, log, quick_mirror, reached

__all__ = ["account", "at_work", "cluster", "lines", "log", "quick_mirror", "reached"]

PLUGIN_FIGURES = """
nvshare_plugin_nvml_state{{state="ok"}} {ok}
nvshare_plugin_nvml_state{{state="error"}} {error}
nvshare_plugin_gpu_healthy{{gpu="GPU-a"}} {a}
nvshare_plugin_gpu_healthy{{gpu="GPU-b"}} {b}
nvshare_plugin_virtual_devices{{gpu="GPU-a"}} 10
nvshare_plugin_virtual_devices{{gpu="GPU-b"}} 10
"""


@dataclass
class Listener(admin_pb2_grpc.AdminServicer):
    """A scheduler that keeps what it was told last."""

    told: list[dict[tuple[str, str], admin_pb2.AnnotatedTerms]] = field(default_factory=list)
    refuses: str = ""
    overruled: list[admin_pb2.Overruled] = field(default_factory=list)
    """What it answers."""

    async def SetAnnotatedTerms(  # noqa: N802
        self, request: admin_pb2.SetAnnotatedTermsRequest, context: Any
    ) -> admin_pb2.SetAnnotatedTermsResponse:
        if self.refuses:
            await context.abort(grpc.StatusCode.INTERNAL, self.refuses)
        self.told.append({(each.pod_uid, each.container): each for each in request.containers})
        return admin_pb2.SetAnnotatedTermsResponse(overruled=self.overruled)

    @property
    def weights(self) -> dict[str, float]:
        """Those of the ``main`` containers, by the pods' uids, as it was told them last."""
        return {uid: each.weight for (uid, name), each in self.told[-1].items() if name == "main"}


@asynccontextmanager
async def listening(listener: admin_pb2_grpc.AdminServicer, run_dir: RunDir) -> AsyncIterator[None]:
    """It serves at the admin socket."""
    run_dir.admin_socket.parent.mkdir(parents=True, exist_ok=True)
    server = grpc.aio.server()
    admin_pb2_grpc.add_AdminServicer_to_server(listener, server)
    server.add_insecure_port(f"unix:{run_dir.admin_socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)


@dataclass
class PluginPages:
    """The device plugin's pages; a test changes what they say."""

    unready: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: str = PLUGIN_FIGURES.format(ok=1, error=0, a=1, b=1)
    port: int = 0
    looks: int = 0
    """How often somebody asked for the figures."""

    async def metrics(self) -> bytes:
        """The page."""
        self.looks += 1
        return self.figures.encode()


@asynccontextmanager
async def plugin_serving(pages: PluginPages) -> AsyncIterator[None]:
    """They are there."""
    server = HttpServer("127.0.0.1:0", pages.metrics, lambda: pages.unready, lambda: pages.notes)
    await server.start()
    pages.port = server.port
    try:
        yield
    finally:
        server.stop()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, quick_mirror: None) -> None:
    """An agent that waits for nothing longer than a test need."""
    for name, seconds in (
        ("agent._LOOK_SECONDS", 0.05),
        ("agent._GRACE_SECONDS", 0.3),
        ("scheduler_link._TELL_SECONDS", 0.1),
        ("complaints._PAUSE_SECONDS", 0.01),
        ("node._RETRY_SECONDS", 0.1),
    ):
        monkeypatch.setattr(f"nvshare.nodeagent.{name}", seconds)
