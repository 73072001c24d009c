"""What plugin and driver have in common: the library is installed, GPUs are watched, the scheduler's status is read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from pathlib import Path
from typing import Any

from nvshare.deviceplugin.answers.allocation import Injection, Mount
from nvshare.deviceplugin.claims.place import Place
from nvshare.deviceplugin.gpus.device_nodes import find_nodes, no_nodes
from nvshare.deviceplugin.gpus.discovery import Selection
from nvshare.deviceplugin.gpus.numa import find_numa_node, no_numa_node
from nvshare.deviceplugin.gpus.nvml_thread import GpuLibrary, NvmlEvent, NvmlThread
from nvshare.deviceplugin.host.install import Installation, Library
from nvshare.deviceplugin.host.problems import HostProblems, check_folders, socket_problem
from nvshare.deviceplugin.kubelet.inventory import Inventory
from nvshare.deviceplugin.metrics import Metrics
from nvshare.deviceplugin.monitor import Monitor
from nvshare.deviceplugin.scheduler_watch import SchedulerWatch
from nvshare.deviceplugin.servable import Servable
from nvshare.deviceplugin.settings.configuration import AllocationMode, Configuration
from nvshare.log import Log, LogLines
from nvshare.nvml_state import InitErrors
from nvshare.paths import MEMORY, ON_MISSING, RunDir

_CHECK_SECONDS = 1.0
_NVML_STOP_SECONDS = 2.0

Cdi = tuple[str | None, frozenset[str] | None]
"""Why CDI devices can't be described, None: they can; and whose are, None: they need not be."""


class NvmlMissingError(Exception):
    """The program ended because NVML stayed away, which its log says."""


class NodeSide:
    """The node, for one plugin or driver with one configuration."""

    def __init__(
        self,
        configuration: Configuration,
        selection: Selection,
        library: Library,
        open_nvml: Callable[[], GpuLibrary],
        cdi: Callable[[], Cdi],
        log: Log,
        lines: LogLines,
    ) -> None:
        """``lines`` are the log's. Needs a running event loop."""
        self._configuration = configuration
        self._log = log
        self._cdi = cdi
        self.metrics = Metrics(lambda: lines.dropped)
        self.inventory = Inventory()
        run_dir = RunDir(configuration.run_dir)
        self.library_dir = library.folder(configuration.library_dir)
        self.client_socket = run_dir.client_socket
        self.injection = injection_of(configuration, self.library_dir, run_dir)
        self._installation = Installation(library, configuration.library_dir)
        self.scheduler = SchedulerWatch(run_dir.admin_socket, log)
        by_plugin = configuration.allocation is AllocationMode.PLUGIN
        self.monitor = Monitor(
            configuration,
            selection,
            self._host_problems,
            self.inventory,
            self.metrics,
            log,
            InitErrors(configuration.fail_on_init_error, configuration.init_error_seconds),
            find_nodes if configuration.compat_with_cpu_manager else no_nodes,
            find_numa_node if configuration.numa_hints else no_numa_node,
            # Claims have memory by their sizes: no share is withheld for it.
            Servable(self.scheduler.fresh, time.monotonic) if by_plugin else None,
        )
        self._loop = asyncio.get_running_loop()
        self._nvml = NvmlThread(open_nvml, self._post)

    async def run(
        self,
        main: Coroutine[Any, Any, None],
        folders: Collection[Path],
        look: Callable[[], Awaitable[None]],
        unready: Callable[[], list[str]],
        *others: Coroutine[Any, Any, None],
    ) -> None:
        """Runs until ``main`` has ended; raises DeadFolderError and NvmlMissingError when only a new container helps.

        ``folders`` are those that it needs beside its own. ``look`` is awaited about once a second, ``unready`` says
        why kubelet does not know us. ``others`` run for as long as ``main``.
        """
        # Before anything is offered: no pod is to get devices and no library.
        await asyncio.to_thread(self._install)
        await look()
        self.monitor.check_host()
        self._nvml.start()
        check = self._check((self._configuration.library_dir, self._configuration.run_dir, *folders), look, unready)
        tasks = [asyncio.create_task(each) for each in (main, check, self.scheduler.run(), *others)]
        try:
            # The first ends when we are to stop, the second when only a new container helps: anything else is a bug.
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.to_thread(self._nvml.stop, _NVML_STOP_SECONDS)

    async def _check(
        self, folders: Collection[Path], look: Callable[[], Awaitable[None]], unready: Callable[[], list[str]]
    ) -> None:
        while True:
            await asyncio.to_thread(check_folders, folders)
            await asyncio.to_thread(self._install)
            await look()
            self.monitor.check_host()
            if (reason := self.monitor.gave_up()) is not None:
                self._log.error(reason)
                raise NvmlMissingError
            self.metrics.problem("kubelet", bool(unready()))
            await asyncio.sleep(_CHECK_SECONDS)

    def _install(self) -> None:
        """In a thread: a slow disk must keep nobody waiting."""
        if self._installation.look():
            self._log.info("the library was installed on the host")

    def _host_problems(self) -> HostProblems:
        problem, described = self._cdi()
        return HostProblems(self._installation.problem, socket_problem(self.client_socket), problem, described)

    def _post(self, event: NvmlEvent) -> None:
        """Hands an event of the NVML thread to the monitor; after the loop's end it is dropped."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.monitor.handle, event)


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


def place_of(configuration: Configuration, injection: Injection) -> Place:
    """Where claims are by the settings."""
    return Place(
        configuration.node_name,
        # kubelet has its folder for device plugins there, too.
        configuration.kubelet_dir.parent,
        configuration.cdi_spec_dir,
        RunDir(configuration.run_dir).admin_socket,
        injection,
    )
