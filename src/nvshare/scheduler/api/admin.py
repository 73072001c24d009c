"""The admin API: what nvshare-ctl asks and commands, over gRPC."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import grpc

from nvshare.admin import admin_pb2, admin_pb2_grpc
from nvshare.scheduler.api import status
from nvshare.scheduler.api.claims_message import claimed_message, claims_of, named_claims, overruled_message
from nvshare.scheduler.api.sleep_commands import CantSleepError, SleepCommands
from nvshare.scheduler.api.terms_message import taken_back, terms_of
from nvshare.scheduler.api.timeline import Timeline
from nvshare.scheduler.api.timeline_message import timeline_message
from nvshare.scheduler.commands import InvalidCommandError, UnknownDeviceError
from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.memory.ledger import reserve_of, usual_context_bytes
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.gpus.queries import Gpu
from nvshare.scheduler.memberships import Memberships, UnknownContainerError
from nvshare.scheduler.pods.allocations import Holding
from nvshare.scheduler.recovery.annotated import PodContainer
from nvshare.scheduler.recovery.record import Recorded

Context = grpc.aio.ServicerContext[Any, Any]

_SHORTEST_INTERVAL = 0.05
_LONGEST_INTERVAL = 3600.0
LONGEST_TIMELINE = 86400.0
_PAUSE_PER_COST = 20.0
"""A watcher waits this many times what a status costs to make, so that watching takes at most 5 % of the time."""
_LONGEST_PAUSE = 3.0
"""Between two timelines for everybody: who asks for one waits for ten seconds."""

_ONLY_SHOWN = "this socket only shows the status"


@dataclass(frozen=True, slots=True)
class Allocations:
    """What kubelet gave to containers, by device, and where the node agent's word on their pods goes."""

    unused: Callable[[], Mapping[str, Sequence[Holding]]]
    """The holdings that have no client."""
    given_twice: Callable[[], Mapping[str, Sequence[Holding]]]
    """What other plugins gave of the devices that nvshare shares."""
    held: Callable[[], Mapping[str, Sequence[Holding]] | None]
    """None while it is not known."""
    pods_end: Callable[[Set[tuple[str, str]]], None]
    """Takes the namespaces and names of the pods that end."""


class StatusService(admin_pb2_grpc.AdminServicer):
    """What is only shown; the calls that set something are refused.

    The handlers run in the event loop of the lock path, so they are short.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        allocations: Allocations,
        gpus: Mapping[str, Gpu],
        measured: Set[str],
        awaited: Callable[[str], Sequence[Recorded]],
        timeline: Timeline,
        memberships: Memberships,
        sleep_commands: SleepCommands,
        swap_dir: str,
        version: str,
        started_at: float,
    ) -> None:
        """``gpus``: what NVML shows, by UUID.

        ``measured``: the devices whose memory is measured now. ``awaited``: the holders of a former scheduler that a
        device waits for. ``swap_dir``: the folder of clients' files; empty: there is none. ``started_at`` is in the
        event loop's time.
        """
        self._dispatcher = dispatcher
        self._allocations = allocations
        self._gpus = gpus
        self._measured = measured
        self._awaited = awaited
        self._timeline = timeline
        self._memberships = memberships
        self._sleep_commands = sleep_commands
        self._swap_dir = swap_dir
        self._version = version
        self._started_at = started_at
        self._stopping = False

    def stop(self) -> None:
        """Ends all watching."""
        self._stopping = True
        for watcher in self._dispatcher.watchers:
            watcher.set()

    async def GetStatus(  # noqa: N802
        self, request: admin_pb2.GetStatusRequest, context: Context
    ) -> admin_pb2.Status:
        """The present state."""
        return self._status()

    async def WatchStatus(  # noqa: N802
        self, request: admin_pb2.WatchStatusRequest, context: Context
    ) -> AsyncIterator[admin_pb2.Status]:
        """The present state, then again after every change."""
        interval = request.min_interval_seconds
        if not 0 <= interval <= _LONGEST_INTERVAL:
            await _refuse(
                context,
                InvalidCommandError(f"interval {interval:g} s is not allowed; from 0 to {_LONGEST_INTERVAL:g} s is"),
            )
        changed = asyncio.Event()
        self._dispatcher.watchers.add(changed)
        try:
            while not self._stopping:
                changed.clear()
                began = time.thread_time()
                state = self._status()
                cost = time.thread_time() - began
                yield state
                await asyncio.sleep(max(interval, _SHORTEST_INTERVAL, cost * _PAUSE_PER_COST))
                await changed.wait()
        finally:
            self._dispatcher.watchers.discard(changed)

    async def GetTimeline(  # noqa: N802
        self, request: admin_pb2.GetTimelineRequest, context: Context
    ) -> admin_pb2.Timeline:
        """The last seconds."""
        if not 0 < request.seconds <= LONGEST_TIMELINE:
            text = f"{request.seconds:g} s are not allowed; more than 0 and up to {LONGEST_TIMELINE:g} are"
            await _refuse(context, InvalidCommandError(text))
        now = asyncio.get_running_loop().time()
        seconds = min(request.seconds, now - self._started_at)
        return timeline_message(self._timeline, self._dispatcher.snapshot(), self._gpus, seconds, now)

    async def SetQuantum(  # noqa: N802
        self, request: admin_pb2.SetQuantumRequest, context: Context
    ) -> admin_pb2.Status:
        """Refused."""
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, _ONLY_SHOWN)

    async def SetPolicy(  # noqa: N802
        self, request: admin_pb2.SetPolicyRequest, context: Context
    ) -> admin_pb2.Status:
        """Refused."""
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, _ONLY_SHOWN)

    async def SetScheduling(  # noqa: N802
        self, request: admin_pb2.SetSchedulingRequest, context: Context
    ) -> admin_pb2.Status:
        """Refused."""
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, _ONLY_SHOWN)

    async def SetTerms(  # noqa: N802
        self, request: admin_pb2.SetTermsRequest, context: Context
    ) -> admin_pb2.Status:
        """Refused."""
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, _ONLY_SHOWN)

    async def Sleep(self, request: admin_pb2.SleepRequest, context: Context) -> admin_pb2.Status:  # noqa: N802
        """Refused."""
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, _ONLY_SHOWN)

    async def Wake(self, request: admin_pb2.SleepRequest, context: Context) -> admin_pb2.Status:  # noqa: N802
        """Refused."""
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, _ONLY_SHOWN)

    async def SetAnnotatedTerms(  # noqa: N802
        self, request: admin_pb2.SetAnnotatedTermsRequest, context: Context
    ) -> admin_pb2.SetAnnotatedTermsResponse:
        """Refused."""
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, _ONLY_SHOWN)

    async def SetClaims(  # noqa: N802
        self, request: admin_pb2.SetClaimsRequest, context: Context
    ) -> admin_pb2.SetClaimsResponse:
        """Refused."""
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, _ONLY_SHOWN)

    def _status(self) -> admin_pb2.Status:
        clients, now = self._dispatcher.clients, asyncio.get_running_loop().time()
        allocations = self._allocations
        unused, given_twice, held = allocations.unused(), allocations.given_twice(), allocations.held()
        host_memory, claims = self._dispatcher.host_memory(), self._memberships.claims
        settings = self._dispatcher.choices.settings
        return admin_pb2.Status(
            version=self._version,
            scheduler_pid=os.getpid(),
            uptime_seconds=now - self._started_at,
            host_memory_bytes=host_memory.budget_bytes,
            host_memory_used_bytes=host_memory.used_bytes,
            swap_file_bytes=host_memory.file_budget_bytes,
            swap_file_used_bytes=host_memory.file_used_bytes,
            swap_dir=self._swap_dir,
            shared_blocks_bytes=host_memory.shared_bytes,
            packs_bytes=host_memory.packs_bytes,
            knows_allocations=held is not None,
            devices=[
                status.device_message(
                    each,
                    self._gpus.get(each.device),
                    each.device in self._measured,
                    clients,
                    unused.get(each.device, ()),
                    given_twice.get(each.device, ()),
                    () if held is None else held.get(each.device, ()),
                    self._awaited(each.device),
                    self._memberships.origins,
                    partial(self._timeline.asleep_seconds, now=now),
                    self._sleep_commands.awake_reason,
                    claimed_message(each, claims),
                    usual_context_bytes(each.total_bytes, settings.assumed_pinned_bytes),
                    reserve_of(each.total_bytes, settings.reserve_bytes),
                )
                for each in sorted(self._dispatcher.snapshot(), key=lambda each: self._place(each.device))
            ],
        )

    def _place(self, device: str) -> tuple[bool, tuple[int, ...]]:
        """GPUs in NVML's order, and then those that it does not show, as they came."""
        gpu = self._gpus.get(device)
        return gpu is None, () if gpu is None else gpu.place()


class AdminService(StatusService):
    """What the scheduler's owner may ask and command."""

    async def SetQuantum(  # noqa: N802
        self, request: admin_pb2.SetQuantumRequest, context: Context
    ) -> admin_pb2.Status:
        """Sets the quantum."""
        try:
            self._dispatcher.set_quantum(request.seconds, self._device(request.device_uuid))
        except InvalidCommandError as error:
            await _refuse(context, error)
        return self._done()

    async def SetPolicy(  # noqa: N802
        self, request: admin_pb2.SetPolicyRequest, context: Context
    ) -> admin_pb2.Status:
        """Sets the policy."""
        try:
            self._dispatcher.set_policy(_policy(request.policy), self._device(request.device_uuid))
        except InvalidCommandError as error:
            await _refuse(context, error)
        return self._done()

    async def SetScheduling(  # noqa: N802
        self, request: admin_pb2.SetSchedulingRequest, context: Context
    ) -> admin_pb2.Status:
        """As version 1's SCHED_ON and SCHED_OFF."""
        if request.on:
            self._dispatcher.switch_on()
        else:
            self._dispatcher.switch_off()
        return self._done()

    async def SetTerms(  # noqa: N802
        self, request: admin_pb2.SetTermsRequest, context: Context
    ) -> admin_pb2.Status:
        """Sets terms of a container."""
        try:
            self._memberships.set_terms(request.container, terms_of(request), taken_back(request))
        except InvalidCommandError as error:
            await _refuse(context, error)
        return self._done()

    async def Sleep(self, request: admin_pb2.SleepRequest, context: Context) -> admin_pb2.Status:  # noqa: N802
        """Has processes sleep as soon as they can."""
        try:
            self._sleep_commands.sleep(request.name)
        except InvalidCommandError as error:
            await _refuse(context, error)
        return self._done()

    async def Wake(self, request: admin_pb2.SleepRequest, context: Context) -> admin_pb2.Status:  # noqa: N802
        """Has processes that sleep come back."""
        try:
            self._sleep_commands.wake(request.name)
        except InvalidCommandError as error:
            await _refuse(context, error)
        return self._done()

    async def SetAnnotatedTerms(  # noqa: N802
        self, request: admin_pb2.SetAnnotatedTermsRequest, context: Context
    ) -> admin_pb2.SetAnnotatedTermsResponse:
        """Takes what annotations of the node's pods say now, and which of the pods end."""
        try:
            overruled = self._memberships.annotate(
                {PodContainer(each.pod_uid, each.container): terms_of(each) for each in request.containers},
                named_claims(request),
                complete=request.complete,
            )
        except InvalidCommandError as error:
            await _refuse(context, error)
        self._allocations.pods_end({(each.namespace, each.pod) for each in request.ending})
        return admin_pb2.SetAnnotatedTermsResponse(overruled=map(overruled_message, overruled))

    async def SetClaims(  # noqa: N802
        self, request: admin_pb2.SetClaimsRequest, context: Context
    ) -> admin_pb2.SetClaimsResponse:
        """Takes what claims of the node may have now."""
        try:
            self._memberships.claim(claims_of(request, lambda uuid: self._device(uuid) or ""))
        except InvalidCommandError as error:
            await _refuse(context, error)
        return admin_pb2.SetClaimsResponse()

    def _done(self) -> admin_pb2.Status:
        """The state after something was set."""
        after = self._status()
        choices = self._dispatcher.choices
        after.lost_with_scheduler, after.lost_with_machine = choices.unwritten, choices.lost_with_machine
        return after

    def _device(self, text: str) -> str | None:
        """The device that is meant, whatever the case of its letters; None: all."""
        if not text:
            return None
        return next((known for known in self._dispatcher.devices if known.lower() == text.lower()), text)


class PublicStatusService(StatusService):
    """What every user may ask, as often as they like: the last answer is given again while a new one costs much."""

    _latest: admin_pb2.Status | None = None
    _fresh_until = 0.0
    _told: tuple[float, admin_pb2.Timeline] | None = None
    """The last timeline, and how many seconds were asked for."""
    _next_timeline_at = 0.0

    async def GetTimeline(  # noqa: N802
        self, request: admin_pb2.GetTimelineRequest, context: Context
    ) -> admin_pb2.Timeline:
        """The last seconds. Whoever asks for others than the one before waits until it is not too soon for that."""
        loop = asyncio.get_running_loop()
        while (left := self._next_timeline_at - loop.time()) > 0:
            if self._told is not None and self._told[0] == request.seconds:
                return self._told[1]
            await asyncio.sleep(left)
        began = time.thread_time()
        made = await super().GetTimeline(request, context)
        cost = time.thread_time() - began
        self._told = request.seconds, made
        self._next_timeline_at = loop.time() + min(cost * _PAUSE_PER_COST, _LONGEST_PAUSE)
        return made

    def _status(self) -> admin_pb2.Status:
        now = asyncio.get_running_loop().time()
        if self._latest is None or now >= self._fresh_until:
            began = time.thread_time()
            self._latest = super()._status()
            self._fresh_until = now + (time.thread_time() - began) * _PAUSE_PER_COST
        return self._latest


def _policy(text: str) -> Policy:
    try:
        return Policy(text)
    except ValueError:
        allowed = ", ".join(policy.value for policy in Policy)
        raise InvalidCommandError(f"policy {text!r} is not allowed; {allowed} are") from None


async def _refuse(context: Context, error: InvalidCommandError) -> NoReturn:
    match error:
        case UnknownDeviceError() | UnknownContainerError():
            code = grpc.StatusCode.NOT_FOUND
        case CantSleepError():
            code = grpc.StatusCode.FAILED_PRECONDITION
        case _:
            code = grpc.StatusCode.INVALID_ARGUMENT
    await context.abort(code, str(error))
