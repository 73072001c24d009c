"""Runs one scheduler: claims the run directory, opens the sockets, serves until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import signal
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from nvshare import display
from nvshare.log import Log, LogLines
from nvshare.nvml_state import InitErrors
from nvshare.protocol import legacy, wire
from nvshare.scheduler import descriptors, event_loop
from nvshare.scheduler.allocation_watch import AllocationWatch
from nvshare.scheduler.api.admin import AdminService, Allocations, PublicStatusService
from nvshare.scheduler.api.scheduler_snapshot import SchedulerSnapshot
from nvshare.scheduler.api.sleep_commands import SleepCommands
from nvshare.scheduler.api.timeline import Timeline
from nvshare.scheduler.arenas.budget import budget_of
from nvshare.scheduler.arenas.files import bytes_in
from nvshare.scheduler.arenas.limits import MemoryLimits
from nvshare.scheduler.clients.connection import Connection, SessionFactory
from nvshare.scheduler.clients.deadlines import Deadlines
from nvshare.scheduler.clients.descriptions import Descriptions
from nvshare.scheduler.clients.fair_reading import FairReading
from nvshare.scheduler.clients.faults import Fault
from nvshare.scheduler.clients.listener import Listener
from nvshare.scheduler.clients.registrar import Registrar
from nvshare.scheduler.clients.session_v1 import SessionV1
from nvshare.scheduler.clients.session_v2 import SessionV2
from nvshare.scheduler.clients.sharing import Sharing
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.invariants import CheckedCore
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.event_loop import Hearing
from nvshare.scheduler.former_scheduler import Records, await_holders, open_records, tell_of_swappers
from nvshare.scheduler.gang_pages import GangPages
from nvshare.scheduler.ganging import Ganging
from nvshare.scheduler.gpus.claims import Claims
from nvshare.scheduler.gpus.discovery import discover
from nvshare.scheduler.gpus.inventory import Inventory, KnownGpus
from nvshare.scheduler.gpus.memory_watch import MemoryWatch
from nvshare.scheduler.gpus.nvml_exit import NvmlExit
from nvshare.scheduler.gpus.nvml_watch import NvmlWatch
from nvshare.scheduler.gpus.queries import Gpu
from nvshare.scheduler.http_server import server_of
from nvshare.scheduler.idle_exit import IdleExit
from nvshare.scheduler.memberships import Memberships
from nvshare.scheduler.options import Options
from nvshare.scheduler.pods import pod_names
from nvshare.scheduler.pods.description import describe
from nvshare.scheduler.pods.peer import peer_of
from nvshare.scheduler.pods.pod_names import RememberedNames
from nvshare.scheduler.recovery.choices import Choices
from nvshare.scheduler.run_dir import Claim, RunDirError, claimed
from nvshare.scheduler.run_dir_watch import RunDirWatch
from nvshare.scheduler.sleeping.sleepers import Sleepers
from nvshare.scheduler.sleeping.sleeping import Sleeping
from nvshare.scheduler.sockets import Sockets
from nvshare.scheduler.swapping import Swapping
from nvshare.scheduler.systemd import Systemd
from nvshare.scheduler.worker import Worker

_REGISTER_SECONDS = 10.0
_HALF_FRAME_SECONDS = 5.0


class StartError(Exception):
    """The scheduler can't start, or not go on; the message says why and what to do."""


def run(options: Options, log: Log, lines: LogLines) -> None:
    """Serves until a signal or idleness ends it; RunDirError or StartError if it can't. ``lines`` are the log's."""
    with claimed(options.run_dir) as claim:
        event_loop.run(partial(_serve, options, claim, log, lines))


async def _serve(options: Options, claim: Claim, log: Log, lines: LogLines, hearing: Hearing) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.set_exception_handler(lambda _loop, context: _report_bug(log, context))
    # Under nohup it outlives its terminal.
    hangups = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL else []
    for number in (signal.SIGTERM, signal.SIGINT, *hangups):
        loop.add_signal_handler(number, stop.set)
    nvml = NvmlWatch(loop, log, InitErrors(options.fail_on_init_error, options.init_error_seconds))
    found = await discover(nvml, log)
    records = open_records(options.run_dir, log)
    running = _Running(options, claim, log, lines, loop, hearing, stop, found, nvml, records)
    try:
        await running.open()
        # What exists now exists until the end: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        log.info(
            "ready",
            version=options.version,
            run_dir=str(options.run_dir.root),
            policy=running.settings.policy.value,
            quantum_seconds=running.settings.quantum_seconds,
            host_memory=display.size(running.settings.host_bytes),
            swap_files=display.size(running.settings.file_bytes),
            gpus=len(found),
        )
        await stop.wait()
    finally:
        await running.close()
    if (reason := running.nvml_exit.reason) is not None:
        raise StartError(reason)
    if running.run_dir_watch.lost:
        raise RunDirError(running.run_dir_watch.lost)


def _report_bug(log: Log, context: Mapping[str, Any]) -> None:
    log.error("a bug in the scheduler", what=context["message"], exc_info=context.get("exception"))


class _Running:
    """The parts of a running scheduler, in the order in which they start and stop."""

    def __init__(
        self,
        options: Options,
        claim: Claim,
        log: Log,
        lines: LogLines,
        loop: asyncio.AbstractEventLoop,
        hearing: Hearing,
        stop: asyncio.Event,
        found: Mapping[bytes, Gpu],
        nvml: NvmlWatch,
        records: Records,
    ) -> None:
        run_dir = options.run_dir
        self._loop = loop
        self._nvml = nvml
        self._log, self._lines = log, lines
        limits = MemoryLimits()
        try:
            host_budget = budget_of(options.host_memory, limits, log)
            file_bytes = 0 if options.swap_dir is None else bytes_in(options.swap_dir, options.swap_bytes, log)
            self._probes = server_of(options, loop, self._snapshot, self._crowded, nvml.notes)
        except ValueError as error:
            raise StartError(str(error)) from error
        settings = replace(options.settings, host_bytes=host_budget.bytes(), file_bytes=file_bytes)
        choices = Choices(run_dir.choices, settings, log)
        self.settings = choices.settings
        """Those that count until the operator sets others."""
        self._systemd = Systemd(loop, options.notify_socket, self._words)
        self._dispatcher = Dispatcher(
            CheckedCore(self.settings, log.error) if options.checks else Core(self.settings),
            loop,
            log,
            records.holders,
            choices,
            self._on_clients_changed,
            lambda action: self._swapping.see_to_memory(action),
            Ganging(GangPages(loop), log).see_to,
            lambda action: self._sleeping.see_to(action),
            hearing.others_speak,
        )
        timeline = Timeline(lambda: self._dispatcher.clients)
        self._dispatcher.observers.append(timeline.happened)
        if self._probes is not None:
            self._probes.follow(self._dispatcher)
        known = KnownGpus.of(found)
        self._swapping = Swapping(
            loop,
            log,
            self._dispatcher,
            limits,
            host_budget,
            options.swap_dir,
            records.swappers,
            tell_of_swappers(records.swappers, found, self._dispatcher, log),
            known.by_uuid.__contains__,
            known.cpus_near,
        )
        self._awaited = await_holders(records.holders, found, self._dispatcher, loop, log)
        self._unregistered = Deadlines[Connection](
            loop, _REGISTER_SECONDS, lambda peer: peer.drop(f"no REGISTER within {_REGISTER_SECONDS:g} s", Fault.SILENT)
        )
        self._half_frames = Deadlines[Connection](
            loop,
            _HALF_FRAME_SECONDS,
            lambda peer: peer.drop(f"half a frame for {_HALF_FRAME_SECONDS:g} s", Fault.HALF_FRAME),
        )
        self._sent_away = Deadlines[Connection](loop, settings.grace_seconds, Connection.close)
        self._reading = FairReading(loop)
        hearing.unread = self._reading.unread
        self._gpus = Inventory(loop, nvml, self._dispatcher, known, log)
        self.nvml_exit = NvmlExit(loop, nvml, self._dispatcher, stop.set, options.init_error_seconds)
        self._memberships = Memberships(self._dispatcher, choices, records.annotated, records.resource_claims, log)
        self._claims = Claims(loop, log, run_dir, stop.set)
        self._registrar = Registrar(
            self._dispatcher,
            self._gpus,
            self._claims,
            options.legacy_device,
            secrets.randbits(64) | 1,
            Descriptions(
                loop, Worker(loop, "describe"), partial(describe, names=RememberedNames(pod_names.names_of).names_of)
            ),
            self._unregistered,
            self._sent_away,
            self._awaited,
            self._swapping,
            self._memberships,
            options.await_annotations,
            self._log,
        )
        self._sharing = Sharing(loop, self._dispatcher)
        self._sleepers = Sleepers(loop, log)
        swapping = self._swapping
        self._sleeping = Sleeping(
            loop,
            log,
            self._dispatcher,
            self._sleepers.start,
            os.geteuid(),
            swapping.storing,
            swapping.sharing,
            records.contexts,
        )
        self._sessions: Mapping[int, SessionFactory] = {
            legacy.VERSION: lambda connection: SessionV1(connection, self._registrar, self._dispatcher, self._log),
            wire.VERSION: lambda connection: SessionV2(
                connection, self._registrar, self._dispatcher, self._sharing, self._sleeping
            ),
        }
        self._memory = MemoryWatch(
            loop, nvml, self._dispatcher, known.by_uuid, self._swapping.departed, self._swapping.returning
        )
        self._swapping.measure_soon = self._memory.ask_soon
        self._idle = (
            None
            if options.exit_when_idle is None
            else IdleExit(loop, options.exit_when_idle, run_dir.programs_lock, stop.set)
        )
        # A worker of its own: kubelet may be slow, and clients want to be described.
        self._allocations = AllocationWatch(
            loop,
            Worker(loop, "kubelet"),
            self._dispatcher,
            self._registrar.device,
            options.pod_resources,
            self._registrar.strangers,
            self._registrar.awaited_claims,
            records.resource_claims,
            log,
        )
        for gpu in known.by_uuid.values():
            self._dispatcher.make_known(gpu.uuid, gpu.total_bytes)
            if 0 < gpu.total_bytes <= (options.settings.reserve_bytes or 0):
                log.warning("--reserve leaves programs whose memory swaps nothing of a GPU", device=gpu.uuid)
        watch = self._allocations
        allocations = Allocations(watch.without_client, watch.given_twice, watch.held, watch.pods_end)
        admin, public = (
            service(
                self._dispatcher,
                allocations,
                known.by_uuid,
                self._memory.measured,
                self._awaited.on,
                timeline,
                self._memberships,
                SleepCommands(self._sleeping, self._dispatcher.clients, self._memberships.clients_of),
                "" if options.swap_dir is None else str(options.swap_dir),
                options.version,
                loop.time(),
            )
            for service in (AdminService, PublicStatusService)
        )
        self._sockets = Sockets(
            run_dir,
            claim,
            admin,
            public,
            self._new_listener,
        )
        files = records.holders, records.swappers
        kept = choices, records.annotated, records.resource_claims, records.contexts
        self.run_dir_watch = RunDirWatch(
            loop, log, claim, self._sockets, files, kept, lambda: self._registrar.room.count, stop.set
        )

    async def open(self) -> None:
        """Opens the sockets, the admin API's first: who can reach the client socket can ask for the status."""
        await self._sockets.open_admin()
        limit = descriptors.raise_limit()
        shares = descriptors.shared_out(limit, descriptors.open_now(), probes=self._probes is not None)
        self._registrar.room.most = shares.clients
        if shares.clients < descriptors.FEW_CLIENTS:
            self._log.warning(
                "room for few clients: raise the limit of open files", connections=shares.clients, descriptors=limit
            )
        if self._probes is not None:
            await self._probes.start(shares.probes)
            self._log.info("metrics", port=self._probes.port)
        self._sockets.open_clients()
        self.run_dir_watch.start()
        self._systemd.ready()

    async def close(self) -> None:
        """Ends everything; what clients do then is theirs to decide."""
        self._systemd.stopping()
        self._log.info("stopping", clients=len(self._dispatcher.clients))
        self.run_dir_watch.stop()
        self._sockets.close_clients()
        self._memory.stop()
        self._gpus.stop()
        self.nvml_exit.close()
        self._allocations.stop()
        self._unregistered.stop()
        self._half_frames.stop()
        self._sent_away.stop()
        self._dispatcher.stop()
        for connection in self._registrar.room:
            connection.abandon()
        self._claims.stop()
        self._awaited.stop()
        self._swapping.stop()
        self._sharing.stop()
        self._sleeping.stop()
        self._sleepers.stop()
        if self._idle is not None:
            self._idle.close()
        await self._sockets.close_admin()
        if self._probes is not None:
            self._probes.stop()

    def _words(self) -> str:
        """What the scheduler does now, for whoever asks systemd."""
        devices, clients = len(self._dispatcher.devices), len(self._dispatcher.clients)
        return f"{display.count(devices, 'GPU')}, {display.count(clients, 'client')}"

    def _snapshot(self) -> SchedulerSnapshot:
        return SchedulerSnapshot(
            self._dispatcher.snapshot(),
            {device: len(holdings) for device, holdings in self._allocations.without_client().items()},
            {device: len(holdings) for device, holdings in self._allocations.given_twice().items()},
            self._registrar.room.count,
            self._registrar.room.most,
            Counter(self._registrar.drops),
            self._sockets.pauses,
            self._lines.dropped,
            self._dispatcher.host_memory(),
            replace(self._sleeping.times),
            replace(self._swapping.storing.times),
            self._nvml.state,
        )

    def _crowded(self) -> str:
        room = self._registrar.room
        return f"{room.count} of {room.most} connections are in use: no room for more" if room.crowded else ""

    def _on_clients_changed(self, clients: int) -> None:
        self._systemd.changed()
        if self._idle is not None:
            self._idle.clients_changed(clients)

    def _has_room(self) -> bool:
        return not self._registrar.room.full

    def _new_listener(self, listening: socket.socket, at_host_path: bool) -> Listener:
        accepted = partial(self._on_accepted, at_host_path)
        return Listener(listening, self._loop, self._has_room, accepted, self._log)

    def _on_accepted(self, at_host_path: bool, accepted: socket.socket) -> None:
        peer = peer_of(accepted, at_host_path=at_host_path)
        # Our own probe connects only to see that it can: it must cost nobody a place.
        if peer.pid == os.getpid() or not self._registrar.admits(peer):
            accepted.close()
            return
        self._registrar.accepted(
            Connection(
                accepted,
                peer,
                self._loop,
                self._sessions,
                self._registrar,
                self._half_frames,
                self._reading,
                self._log,
            )
        )
