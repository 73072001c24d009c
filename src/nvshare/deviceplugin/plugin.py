"""The plugin: its parts are made, connected and run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from nvshare.deviceplugin.answers.allocation import Injection, Mount, uses_cdi
from nvshare.deviceplugin.answers.requests import Rules
from nvshare.deviceplugin.gpus.device_nodes import find_nodes, no_nodes
from nvshare.deviceplugin.gpus.discovery import Selection
from nvshare.deviceplugin.gpus.numa import find_numa_node, no_numa_node
from nvshare.deviceplugin.gpus.nvml_thread import GpuLibrary, NvmlEvent, NvmlThread
from nvshare.deviceplugin.host.cdi_file import CdiFile
from nvshare.deviceplugin.host.install import Installation, Library
from nvshare.deviceplugin.host.problems import HostProblems, check_folders, socket_problem
from nvshare.deviceplugin.kubelet.inventory import Inventory, Part
from nvshare.deviceplugin.kubelet.lifecycle import Lifecycle
from nvshare.deviceplugin.kubelet.resources import Resources
from nvshare.deviceplugin.kubelet.servicer import Servicer
from nvshare.deviceplugin.metrics import Metrics
from nvshare.deviceplugin.monitor import Monitor
from nvshare.deviceplugin.scheduler_watch import SchedulerWatch
from nvshare.deviceplugin.servable import Servable
from nvshare.deviceplugin.settings.configuration import Configuration
from nvshare.log import Log, LogLines
from nvshare.nvml_state import InitErrors
from nvshare.paths import MEMORY, ON_MISSING, RunDir

_CHECK_SECONDS = 1.0
_NVML_STOP_SECONDS = 2.0


class NvmlMissingError(Exception):
    """The plugin ended because NVML stayed away, which its log says."""


class Plugin:
    """The plugin with one configuration."""

    def __init__(
        self,
        configuration: Configuration,
        selection: Selection,
        library: Library,
        open_nvml: Callable[[], GpuLibrary],
        owner: str,
        log: Log,
        lines: LogLines,
    ) -> None:
        """``lines`` are the log's, ``owner`` is how another instance calls this one. Needs a running event loop."""
        self._configuration = configuration
        self._log = log
        self.metrics = Metrics(lambda: lines.dropped)
        self._inventory = Inventory()
        run_dir = RunDir(configuration.run_dir)
        library_dir = library.folder(configuration.library_dir)
        self._client_socket = run_dir.client_socket
        self._installation = Installation(library, configuration.library_dir)
        self._cdi = (
            CdiFile(configuration.cdi_spec_dir, configuration.cdi_own_kind, library_dir, self._client_socket.parent)
            if uses_cdi(configuration.device_list_strategy)
            else None
        )
        self._scheduler = SchedulerWatch(run_dir.admin_socket, log)
        self._monitor = Monitor(
            configuration,
            selection,
            self._host_problems,
            self._inventory,
            self.metrics,
            log,
            InitErrors(configuration.fail_on_init_error, configuration.init_error_seconds),
            find_nodes if configuration.compat_with_cpu_manager else no_nodes,
            find_numa_node if configuration.numa_hints else no_numa_node,
            Servable(self._scheduler.fresh, time.monotonic),
        )
        self._injection = injection_of(configuration, library_dir, run_dir)
        self._owner = owner
        self._resources = Resources(self._inventory, self._new_lifecycle)
        self._loop = asyncio.get_running_loop()
        self._nvml = NvmlThread(open_nvml, self._post)

    @property
    def can_follow(self) -> bool:
        """Whether another instance may end for it: it knows the GPUs, and kubelet has its devices or is about to."""
        return self._monitor.has_looked and not self._resources.unready()

    def notes(self) -> list[str]:
        """What is wrong and does not make it unready."""
        return self._monitor.notes()

    def stop(self) -> None:
        """Ends ``run`` soon, in order; another instance that waits follows."""
        self._resources.stop()

    async def run(self) -> None:
        """Runs until ``stop``; raises DeadFolderError and NvmlMissingError when only a new container helps."""
        # Before anything is offered: no pod is to get devices and no library.
        await asyncio.to_thread(self._install)
        self._monitor.check_host()
        self._nvml.start()
        background = [asyncio.create_task(self._check()), asyncio.create_task(self._scheduler.run())]
        main = asyncio.create_task(self._resources.run())
        try:
            # The first ends when we are to stop, the second when only a new container helps: anything else is a bug.
            done, _ = await asyncio.wait({main, *background}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (main, *background):
                task.cancel()
            await asyncio.gather(main, *background, return_exceptions=True)
            await asyncio.to_thread(self._nvml.stop, _NVML_STOP_SECONDS)

    def _new_lifecycle(self, resource_name: str) -> Lifecycle:
        settings = self._configuration
        log = self._log.bind(resource=resource_name)
        rules = Rules(resource_name, settings.require_distinct, settings.fail_requests_greater_than_one)
        part = Part(self._inventory, resource_name)

        async def new_servicer() -> Servicer:
            # Before kubelet can hand out names that no runtime knows.
            await self._describe()
            loads = self._scheduler.loads if settings.weigh_by_load else _no_loads
            ending, policy = self._scheduler.ending, settings.allocation_policy
            return Servicer(part, rules, self._injection, loads, ending, policy, self.metrics, log)

        return Lifecycle(settings.kubelet_dir, resource_name, self._owner, new_servicer, self.metrics, log)

    async def _check(self) -> None:
        settings = self._configuration
        folders = [settings.kubelet_dir, settings.library_dir, settings.run_dir]
        if self._cdi is not None:
            folders.append(settings.cdi_spec_dir)
        while True:
            await asyncio.to_thread(check_folders, folders)
            await asyncio.to_thread(self._install)
            # Another instance's file is its own: that of one we wait for, and of one that follows us.
            if self._resources.serve:
                await self._describe()
            self._monitor.check_host()
            if (reason := self._monitor.gave_up()) is not None:
                self._log.error(reason)
                raise NvmlMissingError
            self.metrics.problem("kubelet", bool(self._resources.unready()))
            await asyncio.sleep(_CHECK_SECONDS)

    def _install(self) -> None:
        """In a thread: a slow disk must keep nobody waiting."""
        if self._installation.look():
            self._log.info("the library was installed on the host")
        if self._cdi is not None and not self._resources.serve:
            self._cdi.look_at_folder()

    async def _describe(self) -> None:
        if self._cdi is None:
            return
        # In a thread, as the library.
        if await asyncio.to_thread(self._cdi.look, [offer.uuid for offer in self._inventory.snapshot.offers]):
            self._log.info("CDI devices were described", folder=str(self._configuration.cdi_spec_dir))
        self._monitor.check_host()

    def _host_problems(self) -> HostProblems:
        scheduler = socket_problem(self._client_socket)
        if self._cdi is None:
            return HostProblems(self._installation.problem, scheduler)
        return HostProblems(self._installation.problem, scheduler, self._cdi.problem, self._cdi.described)

    def _post(self, event: NvmlEvent) -> None:
        """Hands an event of the NVML thread to the monitor; after the loop's end it is dropped."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._monitor.handle, event)

    def unready(self) -> list[str]:
        """Why it is not ready; nothing when it is."""
        return self._monitor.problems() + self._resources.unready()


def _no_loads() -> None:
    """Allocations count."""


def injection_of(configuration: Configuration, library_dir: Path, run_dir: RunDir) -> Injection:
    """What the settings say that every container gets."""
    environment = dict(configuration.extra_env)
    if configuration.memory is not None:
        environment[MEMORY] = configuration.memory
    if configuration.on_missing is not None:
        environment[ON_MISSING] = configuration.on_missing
    return Injection(
        library_dir=library_dir,
        client_dir=run_dir.client_socket.parent,
        strategies=frozenset(configuration.device_list_strategy),
        cdi_kind=configuration.cdi_kind,
        cdi_own_kind=configuration.cdi_own_kind,
        cdi_annotation_prefix=configuration.cdi_annotation_prefix,
        environment=environment,
        mounts=tuple(
            Mount(mount.host_path, mount.container_path, mount.read_only) for mount in configuration.extra_mounts
        ),
        dev_root=configuration.nvidia_dev_root,
    )
