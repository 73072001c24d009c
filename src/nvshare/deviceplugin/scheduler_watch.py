"""The scheduler's status, read in the background: an answer to kubelet never waits for the scheduler."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import grpc

from nvshare import admin_channel
from nvshare.admin import admin_pb2
from nvshare.admin.admin_pb2_grpc import AdminStub
from nvshare.deviceplugin.answers.preference import Load
from nvshare.log import Log
from nvshare.unix_sockets import grpc_address

FRESH_SECONDS = 5.0
_POLL_SECONDS = 0.5
"""A pod is often made a moment after another was deleted, as when a Job is run again."""
_PAUSE_PER_ANSWER = 20.0
"""It waits so many times what an answer took, so that a scheduler with many clients is not kept from its work."""
_LONGEST_PAUSE = 2.0
_ANSWER_SECONDS = 1.0
_BUSY_STATES = frozenset({"holding", "leaving", "waiting", "unresponsive"})


class SchedulerWatch:
    """The last status that the scheduler told."""

    def __init__(
        self, admin_socket: Path, log: Log, poll_seconds: float = _POLL_SECONDS, fresh_seconds: float = FRESH_SECONDS
    ) -> None:
        self._socket = admin_socket
        self._log = log
        self._poll_seconds = poll_seconds
        self._fresh_seconds = fresh_seconds
        self._status = admin_pb2.Status()
        self._read_at: float | None = None
        self._failing = False

    def fresh(self) -> admin_pb2.Status | None:
        """What the scheduler said last; None when it has not answered for a while."""
        if self._read_at is None or time.monotonic() - self._read_at > self._fresh_seconds:
            return None
        return self._status

    def has_claims(self) -> bool:
        """Whether it shows any now."""
        status = self.fresh()
        return status is not None and any(device.HasField("claimed") for device in status.devices)

    def loads(self) -> dict[str, Load] | None:
        """The load of each GPU; None when it is not known: then allocations count."""
        status = self.fresh()
        return None if status is None else loads_of(status)

    def ending(self) -> frozenset[str]:
        """The virtual devices of pods that are to end, or have ended; none while that is not known."""
        status = self.fresh()
        return frozenset() if status is None else ending_of(status)

    async def run(self) -> None:
        """Asks the scheduler again and again, until cancelled."""
        async with grpc.aio.insecure_channel(grpc_address(self._socket), admin_channel.OPTIONS) as channel:
            stub = AdminStub(channel)
            while True:
                asked_at = time.monotonic()
                try:
                    status = await stub.GetStatus(admin_pb2.GetStatusRequest(), timeout=_ANSWER_SECONDS)
                except grpc.aio.AioRpcError as error:
                    self._failed(error)
                else:
                    self._succeeded(status)
                took = time.monotonic() - asked_at
                await asyncio.sleep(max(self._poll_seconds, min(took * _PAUSE_PER_ANSWER, _LONGEST_PAUSE)))

    def _succeeded(self, status: admin_pb2.Status) -> None:
        self._status = status
        self._read_at = time.monotonic()
        if self._failing:
            self._failing = False
            self._log.info("the scheduler tells its status again")

    def _failed(self, error: grpc.aio.AioRpcError) -> None:
        if not self._failing:
            self._failing = True
            self._log.warning(
                "the scheduler does not tell its status: how much memory is promised is not known, nor any load",
                socket=str(self._socket),
                reason=error.details(),
            )


def loads_of(status: admin_pb2.Status) -> dict[str, Load]:
    """The load of each GPU in a scheduler's status, without that of pods that end."""
    loads: dict[str, Load] = {}
    for device in status.devices:
        ending = {(each.identity.namespace, each.identity.pod) for each in device.allocations if each.ending}
        staying = [each for each in device.clients if (each.identity.namespace, each.identity.pod) not in ending]
        loads[device.uuid] = Load(
            busy=sum(client.state in _BUSY_STATES for client in staying),
            containers=len({_container(client) for client in staying}),
        )
    return loads


def ending_of(status: admin_pb2.Status) -> frozenset[str]:
    """The virtual devices that pods hold which are to end, or have ended."""
    return frozenset(
        device_id
        for device in status.devices
        for allocation in device.allocations
        if allocation.ending
        for device_id in allocation.virtual_device_ids
    )


def _container(client: admin_pb2.Client) -> tuple[str, ...]:
    """What tells a client's container from others; a client of none stands for itself."""
    identity = client.identity
    if not identity.pod:
        return (str(client.id),)
    return (identity.namespace, identity.pod, identity.container)
