"""The plugin's life beside kubelet: serve, register, watch, and all again when kubelet has lost the plugin.

What kubelet does, as its source (1.36) has it and as observed, and what follows from it:

- It calls the plugin before it answers Register: the server runs first, and Register is called asynchronously.
- It opens ListAndWatch once and never again: when a stream has ended, or none has come for some seconds, only a new
  registration helps.
- Its restart deletes our socket and makes its own anew: both are looked at. Pods whose containers do not run at that
  moment fail for good if we have not registered within about 0.9 s of its socket's appearance: it is looked at often,
  and nothing is waited for once somebody listens there.
- A second server on a live socket's path takes it over silently: every server gets a name of its own.
- When a stream of a resource ends, kubelet drops the client that registered last, whosever stream it was. A Register
  that fails because the plugin refuses to tell its options makes it forget who was the last, and nothing else: then
  a stream may end without effect, and so would the last one. Newer versions (1.37) drop the client whose stream it is.

So in general there is one server (InstanceLock). Where another instance waits to follow us, as in a rollout, it
registers while we still serve; kubelet asks it from then on; then we make kubelet forget who was the last, and end.
With our lock the other one registers once more, with a socket of another name and beside its first stream: kubelet must
know again whose end is to be noticed. Nowhere on this way is there a moment in which kubelet has no devices.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

import grpc

from nvshare.deviceplugin.kubelet.instance_lock import InstanceLock, lock_file
from nvshare.deviceplugin.kubelet.servicer import Servicer, Streams, options
from nvshare.deviceplugin.kubelet.socket_files import FileIdentity, identity, remove
from nvshare.deviceplugin.metrics import Metrics
from nvshare.kubelet import deviceplugin_v1beta1_pb2 as api
from nvshare.kubelet.deviceplugin_v1beta1_pb2_grpc import RegistrationStub, add_DevicePluginServicer_to_server
from nvshare.log import Log
from nvshare.unix_sockets import grpc_address, listening_pid

API_VERSION = "v1beta1"


class Ended(Enum):
    """Why a server was stopped."""

    STOPPED = auto()
    KUBELET_RESTARTED = auto()
    SOCKET_GONE = auto()
    STREAM_ENDED = auto()
    NO_STREAM = auto()
    REGISTER_FAILED = auto()
    NO_SOCKET = auto()


@dataclass(frozen=True, slots=True)
class Timing:
    """How long the lifecycle waits, in seconds."""

    poll: float = 0.5
    """Between two looks at the sockets while kubelet watches. Its death ends the stream, which is noticed at once."""
    quick_poll: float = 0.02
    """The same while kubelet or another instance is waited for: it costs 2 % of a core, and pods may be waiting."""
    no_stream: float = 3.0
    """Without a ListAndWatch stream after a registration, before it registers again; doubled each time."""
    longest_no_stream: float = 60.0
    register: float = 15.0
    first_retry: float = 0.5
    longest_retry: float = 30.0
    stop_grace: float = 1.0
    """For calls that are being answered when the server stops."""
    settle: float = 0.5
    """For kubelet to take note of a stream's end."""
    hand_over: float = 4.0
    """For the instance that follows, to register. The pod's grace period is longer."""


@dataclass(frozen=True, slots=True)
class _Serving:
    """A server that runs, with its sockets and what kubelet's socket was when it began."""

    servicer: Servicer
    sockets: dict[Path, FileIdentity | None]
    kubelet: FileIdentity | None

    @property
    def endpoints(self) -> list[str]:
        return [socket.name for socket in self.sockets]


class Lifecycle:
    """Keeps one resource registered with kubelet until ``stop``."""

    def __init__(
        self,
        kubelet_dir: Path,
        resource_name: str,
        owner: str,
        new_servicer: Callable[[], Awaitable[Servicer]],
        metrics: Metrics,
        log: Log,
        timing: Timing | None = None,
    ) -> None:
        """``owner`` is how this instance is called in another one's log.

        ``new_servicer`` is awaited before kubelet is asked to come.
        """
        self._dir = kubelet_dir
        self._resource_name = resource_name
        self._new_servicer = new_servicer
        self._metrics = metrics
        self._log = log
        self._timing = timing or Timing()
        self._stop = asyncio.Event()
        self._lock = InstanceLock(lock_file(kubelet_dir, resource_name), owner)
        self._next = InstanceLock(lock_file(kubelet_dir, resource_name, "next."), owner)
        digest = hashlib.sha256(resource_name.encode()).hexdigest()[:8]
        self._socket_prefix = f"nvshare-{digest}-"
        self._another_serves = False
        self._serves = False
        self.state = "starting"

    @property
    def kubelet_socket(self) -> Path:
        return self._dir / "kubelet.sock"

    @property
    def ready(self) -> bool:
        """Whether kubelet is watching our devices, or we are prepared to follow the instance that serves."""
        return self.state == "registered" or self._another_serves

    @property
    def serves(self) -> bool:
        """Whether we are the one that answers kubelet: from before it hears of us until we are to stop."""
        return self._serves and not self._stop.is_set()

    def stop(self) -> None:
        """Ends ``run`` soon, in order."""
        self._stop.set()

    async def run(self) -> None:
        """Registers, and registers again whenever kubelet lost us, until ``stop``."""
        retry, no_stream = self._timing.first_retry, self._timing.no_stream
        try:
            while await self._prepare():
                seen, began = identity(self.kubelet_socket), time.monotonic()
                ended, was_watched = await self.run_once(no_stream)
                if ended is Ended.STOPPED:
                    return
                self.state = f"waiting to register again ({ended.name.lower().replace('_', ' ')})"
                if was_watched:
                    no_stream = self._timing.no_stream
                elif ended is Ended.NO_STREAM:
                    # A kubelet that is slow must not be asked again before it could answer.
                    no_stream = min(2 * no_stream, self._timing.longest_no_stream)
                if was_watched and time.monotonic() - began >= self._timing.no_stream:
                    # It went well until now: pods may be waiting, so at once.
                    retry = self._timing.first_retry
                    continue
                # Several plugins fail at the same moment: they need not come back at the same moment.
                await self._pause(retry * random.uniform(0.75, 1.25), seen)
                retry = min(2 * retry, self._timing.longest_retry)
        finally:
            self._lock.release()
            self._next.release()

    async def run_once(self, no_stream: float) -> tuple[Ended, bool]:
        """One server from its start to its end; also whether kubelet ever watched it. Leaves no server behind."""
        kubelet = identity(self.kubelet_socket)
        self._serves = True
        try:
            return await self._serve(await self._new_servicer(), kubelet, no_stream)
        finally:
            self._serves = False

    async def _serve(self, servicer: Servicer, kubelet: FileIdentity | None, no_stream: float) -> tuple[Ended, bool]:
        server = grpc.aio.server()
        add_DevicePluginServicer_to_server(servicer, server)
        sockets = self._new_sockets()
        try:
            if not self._bind(server, sockets):
                return Ended.NO_SOCKET, False
            await server.start()
            serving = _Serving(servicer, {socket: identity(socket) for socket in sockets}, kubelet)
            self._log.info("serving", sockets=[str(socket) for socket in sockets])
            if not await self._register(serving.endpoints[0]):
                return (Ended.STOPPED if self._stop.is_set() else Ended.REGISTER_FAILED), servicer.streams.ever_opened
            servicer.streams.restart()
            self.state = "registered"
            ended = await self._watch(serving, no_stream)
            if ended is Ended.STOPPED:
                await self._hand_over(serving)
            return ended, servicer.streams.ever_opened
        finally:
            self.state = "stopping"
            servicer.end()
            await server.stop(self._timing.stop_grace)
            for socket in sockets:
                remove(socket)

    def _new_sockets(self) -> list[Path]:
        """One; two for an instance that begins before the former one has ended, as it registers twice."""
        name = f"{self._socket_prefix}{secrets.token_hex(6)}"
        return [self._dir / f"{name}{end}.sock" for end in (("",) if self._lock.held else ("", "-2"))]

    def _bind(self, server: grpc.aio.Server, sockets: Collection[Path]) -> bool:
        """Makes the server's sockets; False when that fails, as on a full disk."""
        for socket in sockets:
            try:
                server.add_insecure_port(grpc_address(socket))
            except RuntimeError as error:
                self._log.warning("the socket can't be made", socket=str(socket), reason=str(error))
                return False
        return True

    async def _register(self, endpoint: str) -> bool:
        """Registers with kubelet; False when it refused, did not answer, or we are to stop."""
        call = asyncio.create_task(self._error_of_register(endpoint, self._timing.register))
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

    async def _error_of_register(self, endpoint: str, timeout: float) -> grpc.aio.AioRpcError | None:
        """Asks kubelet to register us; its error, or None when it took us."""
        request = api.RegisterRequest(
            version=API_VERSION, endpoint=endpoint, resource_name=self._resource_name, options=options()
        )
        async with grpc.aio.insecure_channel(grpc_address(self.kubelet_socket)) as channel:
            try:
                await RegistrationStub(channel).Register(request, timeout=timeout)
            except grpc.aio.AioRpcError as error:
                return error
        return None

    async def _watch(self, serving: _Serving, no_stream: float) -> Ended:
        """Returns as soon as the registration has become useless, with the reason."""
        streams = serving.servicer.streams
        while not await self._stopped_within(self._interval(streams), streams.ended):
            if (lost := self._lost(serving, no_stream)) is not None:
                return lost
            if streams.open:
                self._next.release()
                if not self._lock.held and not await self._succeed(serving):
                    return Ended.STOPPED if self._stop.is_set() else Ended.REGISTER_FAILED
        return Ended.STOPPED

    def _lost(self, serving: _Serving, no_stream: float) -> Ended | None:
        """Why the registration is of no use any more, which is said in the log; None: it is."""
        if identity(self.kubelet_socket) != serving.kubelet:
            self._log.warning("kubelet restarted or went away: registering again")
            return Ended.KUBELET_RESTARTED
        for socket, own in serving.sockets.items():
            if identity(socket) != own:
                self._log.warning("somebody deleted our socket: registering again", socket=str(socket))
                return Ended.SOCKET_GONE
        if serving.servicer.streams.ended.is_set():
            self._log.warning("kubelet no longer watches our devices: registering again")
            return Ended.STREAM_ENDED
        if serving.servicer.streams.idle_seconds() >= no_stream:
            self._log.warning("kubelet does not watch our devices: registering again", seconds=no_stream)
            return Ended.NO_STREAM
        return None

    def _interval(self, streams: Streams) -> float:
        """Until the next look: soon while something is still to come, the stream or the lock."""
        return self._timing.poll if streams.open and self._lock.held else self._timing.quick_poll

    async def _succeed(self, serving: _Serving) -> bool:
        """Once the instance before us has ended, registers for the second time; False when that fails."""
        try:
            if not self._lock.try_acquire():
                return True
        except OSError:
            return True
        self._another_serves = False
        self._remove_dead_sockets(serving.sockets)
        return not await self._stopped_within(self._timing.settle) and await self._register(serving.endpoints[-1])

    async def _hand_over(self, serving: _Serving) -> None:
        """If another instance waits: lets it register, then makes kubelet overlook our end."""
        try:
            if not self._lock.held or not self._next.is_taken():
                return
            self._lock.offer()
            end = time.monotonic() + self._timing.hand_over
            while self._next.is_taken():
                if time.monotonic() >= end:
                    self._log.warning("the instance that waits does not register: it is waited for no longer")
                    return
                await asyncio.sleep(self._timing.quick_poll)
        except OSError as error:
            self._log.warning("the folder can't be used", folder=str(self._dir), reason=error.strerror)
            return
        serving.servicer.refuse_options()
        await self._error_of_register(serving.endpoints[0], self._timing.stop_grace)
        self._log.info("handed over to the next instance")

    async def _prepare(self) -> bool:
        """Waits until kubelet is there and no other instance serves; False when we are to stop before that.

        Of one that hands over to us the end is not waited for: then the lock is not yet ours.
        """
        logged, waited = set[str](), False
        while not self._stop.is_set():
            obstacle = self._obstacle()
            if obstacle is None:
                # Kubelet must have seen another instance's end before it hears of us: it would take that for ours.
                ended = waited and self._lock.held
                return not (ended and await self._stopped_within(self._timing.settle))
            waited = waited or self._another_serves
            self.state = obstacle
            if obstacle not in logged:
                logged.add(obstacle)
                self._log.warning(obstacle)
            await self._stopped_within(self._timing.quick_poll)
        return False

    def _obstacle(self) -> str | None:
        """What keeps us from registering now; None when nothing does: the lock is ours, or offered to us."""
        self._another_serves = False
        try:
            if self._lock.try_acquire():
                return self._kubelet_obstacle()
            if self._next.try_acquire() and self._lock.is_offered():
                return None
        except OSError as error:
            return f"waiting: {self._dir} can't be used: {error.strerror}"
        self._another_serves = True
        return f"waiting for another instance to end, which serves {self._resource_name}: {self._lock.holder()}"

    def _kubelet_obstacle(self) -> str | None:
        if listening_pid(self.kubelet_socket) is None:
            return f"waiting for kubelet: nobody listens at {self.kubelet_socket} (is --kubelet-dir right?)"
        self._remove_dead_sockets(())
        return None

    def _remove_dead_sockets(self, own: Collection[Path]) -> None:
        """Removes what a killed instance left behind; we have the lock, so none of these but ours is served."""
        for left in self._dir.glob(f"{self._socket_prefix}*.sock"):
            if left not in own:
                remove(left)

    async def _pause(self, seconds: float, kubelet: FileIdentity | None) -> None:
        """Waits for this time, or until we are to stop, or until there is a new kubelet to register with."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and identity(self.kubelet_socket) in (kubelet, None):
            if await self._stopped_within(min(left, self._timing.quick_poll)):
                return

    async def _stopped_within(self, seconds: float, sooner: asyncio.Event | None = None) -> bool:
        """Waits for this time, or until we are to stop, or until the event; whether we are to stop."""
        waits = [asyncio.create_task(event.wait()) for event in (self._stop, sooner) if event is not None]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return self._stop.is_set()
