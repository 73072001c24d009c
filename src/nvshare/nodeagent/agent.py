"""The whole agent: its parts are made, connected and run until a signal stops them."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress

from prometheus_client.exposition import generate_latest

from nvshare.http import HttpServer
from nvshare.kubernetes.api_server import ApiError, ApiServer
from nvshare.kubernetes.mirror import Mirror
from nvshare.log import Log, LogLines
from nvshare.mounts import is_dead
from nvshare.nodeagent import plugin_pages, pods
from nvshare.nodeagent.complaints import Complaints
from nvshare.nodeagent.config_file import ConfigFile
from nvshare.nodeagent.gpu_labels import GpuLabels
from nvshare.nodeagent.metrics import Figures, Metrics
from nvshare.nodeagent.node import Node, NodeReport, node_of
from nvshare.nodeagent.options import Options
from nvshare.nodeagent.pods import Pod
from nvshare.nodeagent.readiness import Steady, Verdict, verdict
from nvshare.nodeagent.scheduler_link import SchedulerLink, request_of
from nvshare.program import end_with_container
from nvshare.version import version

_LOOK_SECONDS = 5.0
"""After which it looks again how the node's parts are."""
_GRACE_SECONDS = 10.0
"""For which a part may be away, as while it is made anew, before the node is said to be not ready."""
_FAREWELL_SECONDS = 3.0


class DeadRunDirError(Exception):
    """The run directory was removed on the node: only a new container sees the one that takes its place."""


class Agent:
    """One run of the agent."""

    def __init__(self, options: Options, log: Log, lines: LogLines) -> None:
        """``lines`` are the log's. Needs a running event loop."""
        self._options = options
        self._log = log
        self._lines = lines
        self._loop = asyncio.get_running_loop()
        self._api_problem = "it was not asked yet"
        self._api = ApiServer(options.account, self._heard)
        self._metrics = Metrics(self._figures)
        self._pods = Mirror[Pod](
            self._api,
            "/api/v1/pods",
            f"spec.nodeName={options.node}",
            pods.reader(options.account.namespace),
            self._pods_changed,
            log,
        )
        self._news = asyncio.Event()
        self._nodes = Mirror[Node](
            self._api, "/api/v1/nodes", f"metadata.name={options.node}", node_of, self._news.set, log
        )
        self._link = SchedulerLink(options.run_dir.admin_socket, self._see_to_complaints, log)
        self._complaints = Complaints(self._api, options.node, log, self._metrics.event)
        self._report = NodeReport(self._api, options.node, log, self._metrics.written)
        self._gpu_labels = GpuLabels(self._api, options.node, options.run_dir.admin_socket, log)
        self._config = ConfigFile(options.run_dir.node_config, log)
        self._steady = Steady(_GRACE_SECONDS)
        self._verdict: Verdict | None = None

    async def run(self) -> None:
        """Runs until SIGTERM or SIGINT.

        Raises AddressError when the metrics address can't be used, DeadRunDirError when only a new container helps.
        """
        server = HttpServer(
            self._options.metrics_address,
            lambda: asyncio.to_thread(generate_latest, self._metrics.registry),
            self._unready,
            self._notes,
        )
        await server.start()
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, stopped.set)
        end_with_container()
        self._log.info("started", version=version(), node=self._options.node, metrics_port=server.port)
        stop = asyncio.create_task(stopped.wait())
        work = (self._pods.run(), self._nodes.run(), self._link.run(), self._complaints.run(), self._look())
        tasks = [asyncio.create_task(each) for each in work]
        try:
            # Of the others none ends but where only a new container helps: anything else is a bug.
            done, _ = await asyncio.wait({stop, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (stop, *tasks):
                task.cancel()
            await asyncio.gather(stop, *tasks, return_exceptions=True)
            await self._say_farewell()
            server.stop()
            self._log.info("stopped")

    async def _look(self) -> None:
        while True:
            self._news.clear()
            if is_dead(self._options.run_dir.root):
                raise DeadRunDirError(
                    f"{self._options.run_dir.root} was removed on the node, and this container's mount of it stays "
                    "empty: ending, so that the container is made anew with the folder that is there then"
                )
            await self._bring_up_to_date()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._news.wait()

    async def _bring_up_to_date(self) -> None:
        node, known = self._node(), self._pods.objects
        if node is not None:
            self._config.bring_up_to_date(node.config)
        if known is None:
            return
        plugins = [pod.plugin for pod in known.values() if pod.plugin is not None and not pod.ended]
        plugin = await plugin_pages.report(plugins)
        found = verdict(self._link.problem, plugin)
        self._verdict = self._steady.said(found, self._loop.time())
        if node is not None and self._verdict is not None:
            await self._report.bring_up_to_date(node, self._verdict, self._loop.time())
        # One that has just begun names no GPU before its driver has answered, and is not ready.
        if node is not None and plugin is not None and plugin.known and (plugin.ready or plugin.gpus):
            await self._gpu_labels.bring_up_to_date(node, plugin.gpus, self._loop.time())

    async def _say_farewell(self) -> None:
        """Nobody is to rely on what nobody looks after. What the scheduler was told counts on, and so does the file."""
        if self._node() is None:
            return
        try:
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await self._report.remove()
        except (ApiError, TimeoutError) as error:
            self._log.warning("the node's condition and label stay as they are", reason=str(error))

    def _node(self) -> Node | None:
        return next(iter((self._nodes.objects or {}).values()), None)

    def _pods_changed(self) -> None:
        known = (self._pods.objects or {}).values()
        self._link.tell(request_of(known))
        self._see_to_complaints()

    def _see_to_complaints(self) -> None:
        self._complaints.see_to((self._pods.objects or {}).values(), self._link.overruled)

    def _heard(self, problem: str) -> None:
        self._api_problem = problem

    def _unready(self) -> list[str]:
        if self._pods.objects is not None and self._node() is not None:
            return []
        return [f"pods and node are not known yet: {self._api_problem or 'the API server says nothing of them'}"]

    def _notes(self) -> list[str]:
        notes = [f"Kubernetes API: {self._api_problem}"] if self._api_problem else []
        return [*notes, f"scheduler: {self._link.problem}"] if self._link.problem else notes

    def _figures(self) -> Figures:
        return Figures(
            self._verdict,
            not self._api_problem,
            not self._link.problem,
            len(self._pods.objects or ()),
            self._link.annotated,
            self._complaints.present,
            self._lines.dropped,
        )
