"""Asks kubelet every few seconds which containers were given which devices, and remembers its last answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Set
from dataclasses import replace
from pathlib import Path

from nvshare.device_uuid import device_bytes
from nvshare.log import Log
from nvshare.scheduler.clients.awaited_claims import AwaitedClaims
from nvshare.scheduler.clients.strangers import Strangers
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.gpus.names import NamedDevice
from nvshare.scheduler.pods.allocations import Holding, Listed, given_twice, without_client
from nvshare.scheduler.pods.pod_resources import KubeletError, read_containers
from nvshare.scheduler.recovery.resource_claims import ResourceClaims
from nvshare.scheduler.worker import Worker

_INTERVAL_SECONDS = 3.0
_ENDING_SECONDS = 20.0
"""For which the word on which pods end counts: another pod may come with the name of one that has gone."""
_SHORTEST_SECONDS = 0.5
"""Between an answer and the next question when a client came of which nothing is known."""


class AllocationWatch:
    """kubelet is asked in a worker; while an answer is outstanding nothing more is asked."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        worker: Worker,
        dispatcher: Dispatcher,
        device: Callable[[bytes], NamedDevice],
        socket: Path,
        strangers: Strangers,
        awaited: AwaitedClaims,
        claims: ResourceClaims,
        log: Log,
    ) -> None:
        """``device``: what is known of the GPU with these 16 bytes as its UUID.

        ``strangers`` and ``awaited`` are told every answer. ``claims``: what nvshare's driver has told.
        """
        self._loop = loop
        self._worker = worker
        self._dispatcher = dispatcher
        self._device = device
        self._socket = socket
        self._strangers = strangers
        self._awaited = awaited
        self._claims = claims
        self._log = log
        self._failing = self._heard = False
        self._containers: tuple[Listed, ...] = ()
        self._told: set[tuple[str, str, str]] = set()
        """The devices, with the pods to which another plugin gave them, that were logged."""
        self._ending: Set[tuple[str, str]] = frozenset()
        self._ending_until = self._answered_at = float("-inf")
        self._asking = self._wanted = False
        self._timer = loop.call_later(0, self._ask)
        strangers.ask_soon = self._ask_soon

    def stop(self) -> None:
        """Asks no more."""
        self._timer.cancel()

    def without_client(self) -> dict[str, list[Holding]]:
        """The containers that hold something of a device and have no client on it, by device."""
        clients = self._dispatcher.clients.values()
        return without_client(self._holdings(), ((each.device, each.description.identity) for each in clients))

    def held(self) -> dict[str, list[Holding]] | None:
        """What containers hold, by device; None while there is no kubelet that has said it."""
        if not self._heard:
            return None
        found: dict[str, list[Holding]] = {}
        ending = self._ending if self._loop.time() < self._ending_until else frozenset()
        for holding in self._holdings():
            is_ending = (holding.namespace, holding.pod) in ending
            found.setdefault(holding.device, []).append(replace(holding, ending=True) if is_ending else holding)
        return found

    def _holdings(self) -> Iterator[Holding]:
        """What containers have; who only looks after a GPU has nothing of it."""
        for holding in (held for each in self._containers for held in each.holdings):
            claim = self._claims.find(holding.claim)
            parts = () if claim is None else claim.on(holding.device)
            if not parts or not all(part.is_admin for part in parts):
                yield replace(holding, shares=sum(part.shares for part in parts)) if parts else holding

    def pods_end(self, pods: Set[tuple[str, str]]) -> None:
        """These pods, by namespace and name, are to end or have ended, and no others; it has to be said again."""
        self._ending_until = self._loop.time() + _ENDING_SECONDS
        if pods != self._ending:
            self._ending = pods
            self._dispatcher.announce()

    def given_twice(self) -> dict[str, list[Holding]]:
        """What another plugin gave of the devices of which containers hold virtual devices, by device."""
        return given_twice(self._containers)

    def _ask_soon(self) -> None:
        self._wanted = True
        if not self._asking:
            self._wait()

    def _ask(self) -> None:
        self._asking, self._wanted = True, False
        self._strangers.asking()
        self._awaited.asking()
        self._worker.submit(self._read, self._answered)

    def _read(self) -> tuple[Listed, ...] | KubeletError | None:
        try:
            return read_containers(self._socket)
        except KubeletError as error:
            return error

    def _answered(self, answer: tuple[Listed, ...] | KubeletError | None) -> None:
        """``answer``: None where there is no kubelet."""
        self._asking = False
        self._answered_at = self._loop.time()
        # While kubelet restarts, its last answer is still true.
        if isinstance(answer, KubeletError):
            if not self._failing:
                self._log.warning(
                    "kubelet does not say which containers hold virtual devices",
                    socket=str(self._socket),
                    reason=str(answer),
                )
            self._failing = True
        else:
            self._failing = False
            self._heard = answer is not None
            self._take(tuple(map(self._named, answer or ())))
        self._wait()

    def _wait(self) -> None:
        self._timer.cancel()
        seconds = _SHORTEST_SECONDS if self._wanted else _INTERVAL_SECONDS
        self._timer = self._loop.call_at(self._answered_at + seconds, self._ask)

    def _take(self, containers: tuple[Listed, ...]) -> None:
        if containers != self._containers:
            self._containers = containers
            self._tell()
            self._dispatcher.announce()
        self._strangers.answered(containers)
        self._awaited.answered(containers)

    def _tell(self) -> None:
        """Logs what is given out twice now and was not before."""
        told: set[tuple[str, str, str]] = set()
        for device, holdings in self.given_twice().items():
            for each in holdings:
                what = (device, each.namespace, each.pod)
                if what not in self._told | told:
                    self._log.warning(
                        "another device plugin gave a GPU that nvshare shares to a pod, and neither knows of the other",
                        device=device,
                        namespace=each.namespace,
                        pod=each.pod,
                        resource=each.resource,
                        remedy="let only one of them offer it: keep the other plugin from this node, or name other "
                        "GPUs in NVIDIA_VISIBLE_DEVICES of nvshare-device-plugin",
                    )
                told.add(what)
        self._told = told

    def _named(self, container: Listed) -> Listed:
        """The container with its devices under their names here; makes those known that nvshare shares."""
        holdings = tuple(filter(None, map(self._known, container.holdings)))
        others = (replace(each, device=self._device(device_bytes(each.device)).name) for each in container.others)
        return replace(container, holdings=holdings, others=tuple(others))

    def _known(self, holding: Holding) -> Holding | None:
        """The holding under its device's name here, and makes the device known; None if that can't be."""
        try:
            device = self._device(device_bytes(holding.device))
            self._dispatcher.make_known(device.name, device.total_bytes)
        except ValueError:
            return None
        return replace(holding, device=device.name)
