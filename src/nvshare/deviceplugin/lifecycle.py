"""The plugin's life beside kubelet: serve, register, watch, and all again when kubelet has lost the plugin.

What kubelet does, as observed, and what follows from it:

- It calls the plugin before it answers Register: the server runs first, and Register is called asynchronously.
- It opens ListAndWatch once and never again: without a stream for some seconds only a new registration helps.
- Its restart deletes our socket and makes its own anew: both are looked at.
- A second server on a live socket's path takes it over silently: every server gets a name of its own.
- When an older server of the same resource ends after a newer one registered, kubelet drops the newer one: there is
  never a second server, neither of this process nor (InstanceLock) of another.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import secrets
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import assert_never

import grpc

from nvshare.deviceplugin.instance_lock import InstanceLock
from nvshare.deviceplugin.metrics import Metrics
from nvshare.deviceplugin.servicer import Servicer, options
from nvshare.kubelet import deviceplugin_v1beta1_pb2 as api
from nvshare.kubelet.deviceplugin_v1beta1_pb2_grpc import RegistrationStub, add_DevicePluginServicer_to_server
from nvshare.log import Log

API_VERSION = "v1beta1"


class Ended(Enum):
    """Why a server was stopped."""

    STOPPED = auto()
    KUBELET_RESTARTED = auto()
    SOCKET_GONE = auto()
    NO_STREAM = auto()
    REGISTER_FAILED = auto()


@dataclass(frozen=True, slots=True)
class Timing:
    """How long the lifecycle waits, in seconds."""

    poll: float = 0.5
    no_stream: float = 3.0
    """Without a ListAndWatch stream, before it registers again."""
    register: float = 15.0
    first_retry: float = 0.5
    longest_retry: float = 30.0
    stop_grace: float = 1.0
    """For calls that are being answered when the server stops."""


@dataclass(frozen=True, slots=True)
class _FileIdentity:
    """Which file a path names; a file made anew under the same name is another one."""

    device: int
    inode: int
    changed_ns: int


class Lifecycle:
    """Keeps one resource registered with kubelet until ``stop``."""

    def __init__(
        self,
        kubelet_dir: Path,
        resource_name: str,
        owner: str,
        new_servicer: Callable[[], Servicer],
        metrics: Metrics,
        log: Log,
        timing: Timing | None = None,
    ) -> None:
        """``owner`` is how this instance is called in another one's log."""
        self._dir = kubelet_dir
        self._resource_name = resource_name
        self._new_servicer = new_servicer
        self._metrics = metrics
        self._log = log
        self._timing = timing or Timing()
        self._stop = asyncio.Event()
        self._lock = InstanceLock(kubelet_dir, resource_name, owner)
        digest = hashlib.sha256(resource_name.encode()).hexdigest()[:8]
        self._socket_prefix = f"nvshare-{digest}-"
        self.state = "starting"

    @property
    def kubelet_socket(self) -> Path:
        return self._dir / "kubelet.sock"

    @property
    def ready(self) -> bool:
        """Whether kubelet is watching our devices."""
        return self.state == "registered"

    def stop(self) -> None:
        """Ends ``run`` soon, in order."""
        self._stop.set()

    async def run(self) -> None:
        """Registers, and registers again whenever kubelet lost us, until ``stop``."""
        retry = self._timing.first_retry
        while await self._prepare():
            seen = _identity(self.kubelet_socket)
            try:
                ended, was_watched = await self.run_once()
            finally:
                self._lock.release()
            match ended:
                case Ended.STOPPED:
                    return
                case Ended.KUBELET_RESTARTED | Ended.SOCKET_GONE:
                    retry = self._timing.first_retry
                case Ended.NO_STREAM | Ended.REGISTER_FAILED:
                    retry = self._timing.first_retry if was_watched else retry
                case _:
                    assert_never(ended)
            self.state = f"waiting to register again ({ended.name.lower().replace('_', ' ')})"
            # Several plugins lose kubelet at the same moment: they need not come back at the same moment.
            await self._pause(retry * random.uniform(0.75, 1.25), seen)
            retry = min(2 * retry, self._timing.longest_retry)

    async def run_once(self) -> tuple[Ended, bool]:
        """One server from its start to its end; also whether kubelet ever watched it. Leaves no server behind."""
        kubelet = _identity(self.kubelet_socket)
        servicer = self._new_servicer()
        server = grpc.aio.server()
        add_DevicePluginServicer_to_server(servicer, server)
        socket = self._dir / f"{self._socket_prefix}{secrets.token_hex(6)}.sock"
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        self._log.info("serving", socket=str(socket))
        try:
            own = _identity(socket)
            if not await self._register(socket.name):
                return (Ended.STOPPED if self._stop.is_set() else Ended.REGISTER_FAILED), servicer.streams.ever_opened
            servicer.streams.restart()
            self.state = "registered"
            return await self._watch(servicer, socket, own, kubelet), servicer.streams.ever_opened
        finally:
            self.state = "stopping"
            servicer.end()
            await server.stop(self._timing.stop_grace)
            socket.unlink(missing_ok=True)

    async def _register(self, endpoint: str) -> bool:
        """Registers with kubelet; False when it refused, did not answer, or we are to stop."""
        request = api.RegisterRequest(
            version=API_VERSION, endpoint=endpoint, resource_name=self._resource_name, options=options()
        )
        async with grpc.aio.insecure_channel(f"unix:{self.kubelet_socket}") as channel:
            call = asyncio.create_task(_error_of(channel, request, self._timing.register))
            stop = asyncio.create_task(self._stop.wait())
            try:
                await asyncio.wait({call, stop}, return_when=asyncio.FIRST_COMPLETED)
                if not call.done():
                    return False
                error = call.result()
            finally:
                call.cancel()
                stop.cancel()
        if error is None:
            self._metrics.registrations.labels("ok").inc()
            self._log.info("registered with kubelet", resource=self._resource_name, endpoint=endpoint)
            return True
        self._metrics.registrations.labels("error").inc()
        self._log.warning("kubelet refused the registration", code=error.code().name, reason=error.details())
        return False

    async def _watch(
        self, servicer: Servicer, socket: Path, own: _FileIdentity | None, kubelet: _FileIdentity | None
    ) -> Ended:
        """Returns as soon as the registration has become useless, with the reason."""
        while not await self._stopped_within(self._timing.poll):
            if _identity(self.kubelet_socket) != kubelet:
                self._log.warning("kubelet restarted or went away: registering again")
                return Ended.KUBELET_RESTARTED
            if _identity(socket) != own:
                self._log.warning("somebody deleted our socket: registering again", socket=str(socket))
                return Ended.SOCKET_GONE
            if servicer.streams.idle_seconds() >= self._timing.no_stream:
                self._log.warning(
                    "kubelet does not watch our devices: registering again", seconds=self._timing.no_stream
                )
                return Ended.NO_STREAM
        return Ended.STOPPED

    async def _prepare(self) -> bool:
        """Waits until kubelet is there and no other instance serves; False when we are to stop before that."""
        logged: set[str] = set()
        while not self._stop.is_set():
            obstacle = self._obstacle()
            if obstacle is None:
                # What was waited for has just happened. If it was another instance's end, kubelet must have seen it
                # before it hears of us, or it takes the end for ours.
                return not (logged and await self._stopped_within(self._timing.poll))
            self.state = obstacle
            if obstacle not in logged:
                logged.add(obstacle)
                self._log.warning(obstacle)
            await self._stopped_within(self._timing.poll)
        return False

    def _obstacle(self) -> str | None:
        """What keeps us from serving now; None when nothing does and the lock is ours."""
        if not _is_socket(self.kubelet_socket):
            return f"waiting for kubelet: no socket {self.kubelet_socket} (is --kubelet-dir right?)"
        try:
            if self._lock.try_acquire():
                self._remove_dead_sockets()
                return None
        except OSError as error:
            return f"waiting: {self._dir} can't be written: {error.strerror}"
        return f"waiting for another instance to end, which serves {self._resource_name}: {self._lock.holder()}"

    def _remove_dead_sockets(self) -> None:
        """Removes what a killed instance left behind; we have the lock, so none of these is served."""
        for left in self._dir.glob(f"{self._socket_prefix}*.sock"):
            left.unlink(missing_ok=True)

    async def _pause(self, seconds: float, kubelet: _FileIdentity | None) -> None:
        """Waits for this time, or until we are to stop, or until there is a new kubelet to register with."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            now = _identity(self.kubelet_socket)
            if await self._stopped_within(min(left, self._timing.poll)) or now not in (kubelet, None):
                return

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._stop.wait()
        except TimeoutError:
            return False


async def _error_of(
    channel: grpc.aio.Channel, request: api.RegisterRequest, timeout: float
) -> grpc.aio.AioRpcError | None:
    """Registers; kubelet's error, or None when it took us."""
    try:
        await RegistrationStub(channel).Register(request, timeout=timeout)
    except grpc.aio.AioRpcError as error:
        return error
    return None


def _identity(path: Path) -> _FileIdentity | None:
    """Which file has this name now; None when none has."""
    try:
        status = path.stat()
    except OSError:
        return None
    return _FileIdentity(status.st_dev, status.st_ino, status.st_ctime_ns)


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
