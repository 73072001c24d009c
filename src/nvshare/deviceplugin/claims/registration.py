"""The driver's life beside kubelet: two sockets are served, and served anew when they are gone.

What kubelet does, as its source (1.36) has it, and what follows from it:

- It watches a folder for registration sockets and asks each who is there; it does so again when it has restarted. So
  nothing has to be done when it restarts. It allows 1 s for the answer.
- When a registration socket's file goes, the driver is gone. Of several instances it asks the newest that is connected:
  one that ends removes that file first, then answers what it was asked, then removes the other.
- It wants an endpoint that it did not know: each server has names of its own.
- It tells whether it took the driver. When it did not, it tries again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import grpc

from nvshare.deviceplugin.claims.health import Health
from nvshare.deviceplugin.claims.service import Service
from nvshare.deviceplugin.kubelet.socket_files import FileIdentity, identity, remove
from nvshare.deviceplugin.metrics import Metrics
from nvshare.dra import DRIVER
from nvshare.kubelet import pluginregistration_v1_pb2 as api
from nvshare.kubelet.dra_v1_pb2_grpc import add_DRAPluginServicer_to_server
from nvshare.kubelet.drahealth_v1alpha1_pb2_grpc import add_DRAResourceHealthServicer_to_server
from nvshare.kubelet.pluginregistration_v1_pb2_grpc import RegistrationServicer, add_RegistrationServicer_to_server
from nvshare.log import Log
from nvshare.unix_sockets import grpc_address, listening_pid

_TYPE = "DRAPlugin"
_SERVICES = ("v1.DRAPlugin", "v1alpha1.DRAResourceHealth")
"""What kubelet can ask at the endpoint. 1.36 asks for the health without looking here, 1.37 looks."""
_WAITING = "waiting for kubelet to register it (is --kubelet-dir right?)"

Context = grpc.aio.ServicerContext[object, object]


@dataclass(frozen=True, slots=True)
class Timing:
    """How long the registration waits, in seconds."""

    poll: float = 0.5
    """Between two looks at the sockets."""
    retry: float = 1.0
    """Before sockets are made again that could not be made."""
    stop_grace: float = 5.0
    """For claims that are being prepared when the server stops."""


class Registration(RegistrationServicer):
    """Keeps the driver registered with kubelet until ``stop``."""

    def __init__(
        self,
        kubelet_root: Path,
        new_service: Callable[[], Service],
        new_health: Callable[[], Health],
        metrics: Metrics,
        log: Log,
        timing: Timing | None = None,
        wait_seconds: float = 0.0,
    ) -> None:
        """``kubelet_root``: kubelet's folder, with ``plugins`` and ``plugins_registry`` in it.

        ``wait_seconds``: for so long kubelet finds nothing at first.
        """
        self._registry = kubelet_root / "plugins_registry"
        self._folder = kubelet_root / "plugins" / DRIVER
        self._new_service = new_service
        self._new_health = new_health
        self._metrics = metrics
        self._log = log
        self._timing = timing or Timing()
        self._wait_seconds = wait_seconds
        self._stop = asyncio.Event()
        self._endpoint = Path()
        self.state = "starting"

    @property
    def ready(self) -> bool:
        """Whether kubelet took the driver."""
        return self.state == "registered"

    def stop(self) -> None:
        """Ends ``run`` soon, in order."""
        self._stop.set()

    async def run(self) -> None:
        """Serves until ``stop``. Only one instance does at a time: dead sockets of others are removed."""
        failed: str | None = None
        await self._stopped_within(self._wait_seconds)
        while not self._stop.is_set():
            try:
                await asyncio.to_thread(self._tidy)
                await self._serve(secrets.token_hex(6))
                failed = None
            except (OSError, RuntimeError) as error:
                # gRPC has no better error than that for a socket that can't be made, as on a full disk.
                self.state = f"its sockets can't be made: {error}"
                if self.state != failed:
                    failed = self.state
                    self._log.warning(failed)
                await self._stopped_within(self._timing.retry)
        self.state = "stopped"

    async def GetInfo(self, request: api.InfoRequest, context: Context) -> api.PluginInfo:  # noqa: N802
        return api.PluginInfo(type=_TYPE, name=DRIVER, endpoint=str(self._endpoint), supported_versions=_SERVICES)

    async def NotifyRegistrationStatus(  # noqa: N802
        self, request: api.RegistrationStatus, context: Context
    ) -> api.RegistrationStatusResponse:
        if request.plugin_registered:
            self.state = "registered"
            self._metrics.registrations.labels("ok").inc()
            self._log.info("registered with kubelet", driver=DRIVER, endpoint=str(self._endpoint))
        else:
            self.state = f"kubelet refused it: {request.error}"
            self._metrics.registrations.labels("error").inc()
            self._log.warning("kubelet refused the registration", driver=DRIVER, reason=request.error)
        return api.RegistrationStatusResponse()

    async def _serve(self, name: str) -> None:
        """One server, until ``stop`` or until one of its sockets has gone. Leaves nothing behind."""
        registration = self._registry / f"{DRIVER}-{name}-reg.sock"
        self._endpoint = self._folder / f"{name}.sock"
        server, health = grpc.aio.server(), self._new_health()
        add_DRAPluginServicer_to_server(self._new_service(), server)
        add_DRAResourceHealthServicer_to_server(health, server)
        add_RegistrationServicer_to_server(self, server)
        try:
            for socket in (self._endpoint, registration):
                server.add_insecure_port(grpc_address(socket))
            self.state = _WAITING
            await server.start()
            await self._watch({socket: identity(socket) for socket in (self._endpoint, registration)})
        finally:
            if self.ready:
                self.state = "stopping"
            remove(registration)
            health.end()
            await server.stop(self._timing.stop_grace)
            remove(self._endpoint)

    async def _watch(self, sockets: dict[Path, FileIdentity | None]) -> None:
        """Returns when we are to stop, or when kubelet can't come any more."""
        while not await self._stopped_within(self._timing.poll):
            for socket, own in sockets.items():
                if identity(socket) != own:
                    self._log.warning("somebody deleted our socket: registering again", socket=str(socket))
                    return

    def _tidy(self) -> None:
        """Makes our folder, and removes sockets that killed instances left behind. OSError names the folder."""
        if not self._registry.is_dir():
            raise FileNotFoundError(f"there is no folder {self._registry} (is --kubelet-dir right?)")
        self._folder.mkdir(parents=True, exist_ok=True)
        for left in (*self._registry.glob(f"{DRIVER}-*-reg.sock"), *self._folder.glob("*.sock")):
            if listening_pid(left) is None:
                remove(left)

    async def _stopped_within(self, seconds: float) -> bool:
        """Waits for this time, or until we are to stop; whether we are."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        return self._stop.is_set()
