"""The driver of dynamic resource allocation, as ``plugin`` one of two modes: its parts are made, connected and run.

The node's ResourceSlice says what can be claimed, kubelet has claims prepared, the scheduler is told of them. All of it
is done by one instance of a node, and not beside a plugin: they have the same locks (kubelet/turn.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from nvshare.deviceplugin.answers.preference import AllocationPolicy
from nvshare.deviceplugin.claims import slices
from nvshare.deviceplugin.claims.attributes import attributes
from nvshare.deviceplugin.claims.capacities import Capacities
from nvshare.deviceplugin.claims.claim import Document
from nvshare.deviceplugin.claims.order import Order
from nvshare.deviceplugin.claims.publisher import Publisher
from nvshare.deviceplugin.claims.session import Known, Session
from nvshare.deviceplugin.claims.sweep import held_in
from nvshare.deviceplugin.claims.told import consumed_by
from nvshare.deviceplugin.devices import Gpu
from nvshare.deviceplugin.gpus import pci
from nvshare.deviceplugin.gpus.discovery import Selection
from nvshare.deviceplugin.gpus.numa import find_numa_node
from nvshare.deviceplugin.gpus.nvml_thread import GpuLibrary
from nvshare.deviceplugin.host.install import Library
from nvshare.deviceplugin.kubelet.turn import Turn
from nvshare.deviceplugin.metrics import Metrics
from nvshare.deviceplugin.node_side import Cdi, NodeSide, place_of
from nvshare.deviceplugin.settings.configuration import Configuration
from nvshare.dra import DRIVER
from nvshare.kubernetes.account import Account
from nvshare.kubernetes.api_server import ApiServer
from nvshare.log import Log, LogLines

_POLL_SECONDS = 0.5
_QUICK_POLL_SECONDS = 0.05
"""While another instance is waited for."""


class Driver:
    """The driver with one configuration."""

    def __init__(
        self,
        configuration: Configuration,
        selection: Selection,
        library: Library,
        open_nvml: Callable[[], GpuLibrary],
        owner: str,
        account: Account,
        log: Log,
        lines: LogLines,
    ) -> None:
        """``lines`` are the log's, ``owner`` is how another instance calls this one. Needs a running event loop."""
        self._configuration = configuration
        self._log = log
        self._node = NodeSide(configuration, selection, library, open_nvml, self._described, log, lines)
        self._inventory = self._node.inventory
        self._api_problem = ""
        self._api = ApiServer(account, self._heard)
        self._publisher = Publisher(self._api, configuration.node_name, log, lambda result: self._count(result))
        self._order = Order(time.monotonic)
        self._capacities = Capacities(self._node.scheduler.fresh, configuration.overcommit, time.monotonic)
        self._place = place_of(configuration, self._node.injection)
        self._known = Known(
            get_claim=self._claim,
            claim_to_prepare=self._claim,
            inventory=self._inventory,
            own_bytes=self._capacities.own_bytes,
            held=lambda: held_in(self._node.scheduler.fresh()),
        )
        self._turn = Turn(configuration.kubelet_dir, owner)
        self._attributes: dict[Gpu, dict[str, Any]] = {}
        self._session: Session | None = None
        self._state = "starting"
        self._unread = ""
        """Why records could not be read when that was tried last; empty: they could."""
        self._stop = asyncio.Event()
        self._for_good = False

    @property
    def metrics(self) -> Metrics:
        """What Prometheus is shown."""
        return self._node.metrics

    @property
    def can_follow(self) -> bool:
        """Whether another instance may end for it: it knows the GPUs, and the API answers it."""
        return self._node.monitor.has_looked and not self._unserved()

    def notes(self) -> list[str]:
        """What is wrong and does not make it unready."""
        notes = self._node.monitor.notes()
        if self._api_problem:
            notes.append(f"Kubernetes API: {self._api_problem}")
        if self._session is not None and self._session.link.problem:
            notes.append(f"the scheduler does not take claims: {self._session.link.problem}")
        return notes if self._publisher.note is None else [*notes, self._publisher.note]

    def unready(self) -> list[str]:
        """Why it is not ready; nothing when it is."""
        return self._node.monitor.problems() + self._unserved()

    def stop(self, *, for_good: bool) -> None:
        """Ends ``run`` soon, in order; another instance that waits follows. ``for_good``: no driver does."""
        self._for_good = for_good
        self._stop.set()

    async def run(self) -> None:
        """Runs until ``stop``; raises DeadFolderError and NvmlMissingError when only a new container helps."""
        settings = self._configuration
        folders = (settings.kubelet_dir, settings.cdi_spec_dir, *self._place.folders)
        await self._node.run(self._serve_in_turn(), folders, self._look, self._unserved)

    async def _serve_in_turn(self) -> None:
        """Follows the API from the beginning, and serves once no other instance does."""
        publishing = asyncio.create_task(self._publisher.run())
        served, said = False, set[str]()
        try:
            while not self._stop.is_set():
                if publishing.done():
                    publishing.result()
                obstacle = self._obstacle()
                if obstacle is None:
                    served = True
                    await self._serve()
                    continue
                self._state = obstacle
                if self._turn.waits and obstacle not in said:
                    said.add(obstacle)
                    self._log.warning(obstacle)
                await self._stopped_within(_QUICK_POLL_SECONDS)
        finally:
            publishing.cancel()
            with suppress(asyncio.CancelledError):
                await publishing
            if served and self._for_good:
                await self._publisher.withdraw()
            self._turn.release()

    def _obstacle(self) -> str | None:
        """What keeps us from serving now; None: nothing does, and no other instance can begin to."""
        names = self._inventory.snapshot.resource_names
        return self._turn.take((DRIVER, *sorted(names))) if names else "waiting for a GPU"

    async def _serve(self) -> None:
        """Until we are to stop, or somebody else has taken over."""
        self._session, over = Session(self._place, self._known, self.metrics, self._log), asyncio.Event()
        serving = asyncio.create_task(self._session.run(over))
        try:
            while not serving.done() and not self._stop.is_set() and self._obstacle() is None:
                self._publish()
                await self._stopped_within(_POLL_SECONDS)
        finally:
            self._publisher.rest()
            over.set()
            await asyncio.wait({serving})
            self._session = None
        before, self._unread = self._unread, ""
        try:
            serving.result()
        except OSError as error:
            self._state = self._unread = f"records of claims can't be read: {error}"
            if self._unread != before:
                self._log.warning(self._unread)
            await self._stopped_within(_POLL_SECONDS)

    def _publish(self) -> None:
        """Offers what claims may have now; nothing before the scheduler has told how much memory there is."""
        offers = self._inventory.snapshot.offers
        self._capacities.bring_up_to_date({offer.uuid: offer.virtual_devices for offer in offers})
        if not self._capacities.known:
            return
        offered = {}
        for offer in offers:
            capacity = self._capacities.of(offer.uuid)
            if capacity is not None:
                told = self._attributes_of(self._node.monitor.gpus[offer.uuid])
                offered[offer.uuid] = slices.Offered(offer.uuid, capacity, told, offer.problem)
            memory_bytes, shares = (0, 0) if capacity is None else (capacity.memory_bytes, capacity.shares)
            self.metrics.claimable(offer.uuid, memory_bytes, shares)
        # Before it is known which slice there is, its order isn't either.
        if self._publisher.reached:
            self._publisher.offer(slices.devices([offered[uuid] for uuid in self._in_order(offered)]))

    def _in_order(self, offered: Mapping[str, slices.Offered]) -> Iterable[str]:
        """How the cluster's scheduler is to try the GPUs: packed, always in the same order."""
        if self._session is None or self._configuration.allocation_policy is AllocationPolicy.PACKED:
            return offered
        if not self._order.known:
            names = {slices.device_name(uuid): uuid for uuid in offered}
            self._order.follow([names[name] for name in self._publisher.listed() if name in names])
        consumed = consumed_by(self._session.claims.records.values())
        claimed = {uuid: consumed[uuid] / each.capacity.memory_bytes for uuid, each in offered.items()}
        step = min((1 / each.capacity.shares for each in offered.values()), default=1.0)
        return self._order.spread(claimed, step)

    def _attributes_of(self, gpu: Gpu) -> dict[str, Any]:
        known = self._attributes.get(gpu)
        if known is None:
            known = attributes(gpu, pci.address(gpu), pci.find_root(gpu), find_numa_node(gpu))
            self._attributes[gpu] = known
        return known

    async def _claim(self, namespace: str, name: str) -> Document:
        return await self._api.get(slices.claim_path(namespace, name))

    async def _look(self) -> None:
        """Nothing: the session looks after its files itself."""

    def _described(self) -> Cdi:
        return None if self._session is None else self._session.claims.problem, None

    def _unserved(self) -> list[str]:
        """Why pods can't claim this node's GPUs, and why we are not prepared to follow another instance."""
        if not self._inventory.snapshot.offers:
            return []
        reasons = [] if self._publisher.problem is None else [self._publisher.problem]
        if not reasons and not self._publisher.reached:
            reasons.append("the node's ResourceSlices are not known yet: the API server has not answered")
        if self._turn.waits:
            return reasons
        # A copy: probes are answered in another thread.
        session = self._session
        if session is None:
            return [*reasons, f"{DRIVER} does not serve: {self._state}"]
        if not session.registration.ready:
            reasons.append(f"{DRIVER} is not registered with kubelet: {session.registration.state}")
        if not reasons and not self._publisher.published:
            told = "it is being made" if self._capacities.known else "the scheduler has not told the GPUs' memory yet"
            reasons.append(f"the node's ResourceSlice is not there yet: {told}")
        return reasons

    def _heard(self, problem: str) -> None:
        self._api_problem = problem

    def _count(self, result: str) -> None:
        self.metrics.slice_writes.labels(result).inc()

    async def _stopped_within(self, seconds: float) -> None:
        """Waits for this time, or until we are to stop."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()
