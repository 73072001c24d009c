"""The plugin: its parts are made, connected and run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nvshare.deviceplugin.answers.allocation import uses_cdi
from nvshare.deviceplugin.answers.requests import Rules
from nvshare.deviceplugin.gpus.discovery import Selection
from nvshare.deviceplugin.gpus.nvml_thread import GpuLibrary
from nvshare.deviceplugin.host.cdi_file import CdiFile
from nvshare.deviceplugin.host.install import Library
from nvshare.deviceplugin.kubelet.inventory import Part
from nvshare.deviceplugin.kubelet.lifecycle import Lifecycle
from nvshare.deviceplugin.kubelet.resources import Resources
from nvshare.deviceplugin.kubelet.servicer import Servicer
from nvshare.deviceplugin.metrics import Metrics
from nvshare.deviceplugin.node_side import Cdi, NodeSide, place_of
from nvshare.deviceplugin.settings.configuration import Configuration
from nvshare.kubernetes.account import Account
from nvshare.log import Log, LogLines

_LOOK_SECONDS = 1.0


class Plugin:
    """The plugin with one configuration."""

    def __init__(
        self,
        configuration: Configuration,
        selection: Selection,
        library: Library,
        open_nvml: Callable[[], GpuLibrary],
        owner: str,
        account: Account | None,
        log: Log,
        lines: LogLines,
    ) -> None:
        """``lines`` are the log's, ``owner`` is how another instance calls this one; ``account``: None: there is none.

        Needs a running event loop.
        """
        self._configuration = configuration
        self._log = log
        self._node = NodeSide(configuration, selection, library, open_nvml, self._described, log, lines)
        self._inventory = self._node.inventory
        self._cdi = (
            CdiFile(
                configuration.cdi_spec_dir,
                configuration.cdi_own_kind,
                self._node.library_dir,
                self._node.client_socket.parent,
            )
            if uses_cdi(configuration.device_list_strategy)
            else None
        )
        self._owner = owner
        self._account = account
        self._resources = Resources(self._inventory, self._new_lifecycle)
        self._place = place_of(configuration, self._node.injection)

    @property
    def metrics(self) -> Metrics:
        """What Prometheus is shown."""
        return self._node.metrics

    @property
    def can_follow(self) -> bool:
        """Whether another instance may end for it: it knows the GPUs, and kubelet has its devices or is about to."""
        return self._node.monitor.has_looked and not self._resources.unready()

    def notes(self) -> list[str]:
        """What is wrong and does not make it unready."""
        return self._node.monitor.notes()

    def stop(self, *, for_good: bool) -> None:
        """Ends ``run`` soon, in order; another instance that waits follows, whichever it is."""
        self._resources.stop()

    async def run(self) -> None:
        """Runs until ``stop``; raises DeadFolderError and NvmlMissingError when only a new container helps."""
        settings = self._configuration
        folders = [settings.kubelet_dir] if self._cdi is None else [settings.kubelet_dir, settings.cdi_spec_dir]
        main, unready = self._resources.run(), self._resources.unready
        await self._node.run(main, folders, self._look, unready, self._see_to_leftovers())

    def _new_lifecycle(self, resource_name: str) -> Lifecycle:
        settings = self._configuration
        log = self._log.bind(resource=resource_name)
        rules = Rules(resource_name, settings.require_distinct, settings.fail_requests_greater_than_one)
        part, scheduler, policy = Part(self._inventory, resource_name), self._node.scheduler, settings.allocation_policy

        async def new_servicer() -> Servicer:
            # Before kubelet can hand out names that no runtime knows.
            await self._describe()
            loads = scheduler.loads if settings.weigh_by_load else _no_loads
            ending, injection = scheduler.ending, self._node.injection
            return Servicer(part, rules, injection, loads, ending, policy, self.metrics, log)

        return Lifecycle(settings.kubelet_dir, resource_name, self._owner, new_servicer, self.metrics, log)

    async def _see_to_leftovers(self) -> None:
        """Claims that were prepared before the node changed to the plugin, or that only the scheduler still knows."""
        while True:
            has_any = self._node.scheduler.has_claims() or await asyncio.to_thread(self._place.has_records)
            if self._resources.serve and has_any:
                # Only where it is needed: what it takes stays for as long as this serves.
                from nvshare.deviceplugin.leftover_claims import LeftoverClaims

                claims = LeftoverClaims(self._node, self._configuration, self._place, self._account, self._log)
                await claims.see_to_them(lambda: self._resources.serve)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self) -> None:
        # Another instance's file is its own: that of one we wait for, and of one that follows us.
        if self._resources.serve:
            await self._describe()
        elif self._cdi is not None:
            await asyncio.to_thread(self._cdi.look_at_folder)

    async def _describe(self) -> None:
        if self._cdi is None:
            return
        # In a thread: a slow disk must keep nobody waiting.
        if await asyncio.to_thread(self._cdi.look, [offer.uuid for offer in self._inventory.snapshot.offers]):
            self._log.info("CDI devices were described", folder=str(self._configuration.cdi_spec_dir))
        self._node.monitor.check_host()

    def _described(self) -> Cdi:
        return (None, None) if self._cdi is None else (self._cdi.problem, self._cdi.described)

    def unready(self) -> list[str]:
        """Why it is not ready; nothing when it is."""
        return self._node.monitor.problems() + self._resources.unready()


def _no_loads() -> None:
    """Allocations count."""
