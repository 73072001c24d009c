"""Runs the program: its probes, its signals, and one plugin or driver after the other as its settings change.

A plugin with new settings follows the former one as an instance in another container would (kubelet/lifecycle.py), so
kubelet has devices at every moment. A child process reads the settings, because the memory for that would stay.
"""

from __future__ import annotations

import asyncio
import math
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from prometheus_client.exposition import generate_latest

from nvshare.deviceplugin.metrics import Metrics
from nvshare.deviceplugin.settings.choice import Settings
from nvshare.deviceplugin.settings.configuration import Configuration
from nvshare.http import HttpServer
from nvshare.log import Log
from nvshare.program import end_with_container

_LOOK_SECONDS = 1.0
_RETRY_SECONDS = 60.0
"""Until settings that could not be read are read again, though the choice is the same: memory may have been short."""
_READY_SECONDS = 0.05
"""Between two looks whether a plugin is ready to follow."""
_FIXED = ("metrics_address", "log_format", "log_level")
"""Settings of the process, not of its plugin."""


class UnreadableError(Exception):
    """The settings can't be read; the text says why."""


class Mode(Protocol):
    """A plugin or a driver, with one configuration."""

    @property
    def metrics(self) -> Metrics:
        """What Prometheus is shown."""

    @property
    def can_follow(self) -> bool:
        """Whether the one before may end for it."""

    def unready(self) -> list[str]:
        """Why it is not ready; nothing when it is."""

    def notes(self) -> list[str]:
        """What is wrong and does not make it unready."""

    def stop(self, *, for_good: bool) -> None:
        """Ends ``run`` soon, in order; ``for_good``: the node's GPUs are given out otherwise from now on."""

    async def run(self) -> None:
        """Until ``stop``."""


@dataclass(frozen=True, slots=True)
class _Running:
    """A plugin or driver and the task that it runs in."""

    plugin: Mode
    task: asyncio.Task[None]

    async def end(self, *, for_good: bool = False) -> None:
        """Tells it to stop, and waits for that; raises what it ended with."""
        self.plugin.stop(for_good=for_good)
        await self.task


class Changeover:
    """One run of the program."""

    def __init__(
        self,
        settings: Settings,
        new_plugin: Callable[[Configuration], Mode],
        read_settings: Callable[[], Settings],
        log: Log,
        retry_seconds: float = _RETRY_SECONDS,
    ) -> None:
        """``read_settings`` is called in a thread; it raises UnreadableError. Needs a running event loop."""
        self._settings = settings
        self._new_plugin = new_plugin
        self._read_settings = read_settings
        self._log = log
        self._retry_seconds = retry_seconds
        self._read_again_at = math.inf
        self._problem = settings.problem
        # Not what is seen now: it may have changed since the settings were read.
        self._seen = settings.seen
        self._stopped = asyncio.Event()
        self._plugin = new_plugin(settings.configuration)
        self._following: Mode | None = None
        """The one that is to take its place, and can't yet."""

    async def run(self) -> None:
        """Runs until SIGTERM or SIGINT.

        Raises AddressError when the metrics address can't be used, and what the plugin raises.
        """
        server = HttpServer(
            self._settings.configuration.metrics_address,
            lambda: asyncio.to_thread(generate_latest, self._plugin.metrics.registry),
            lambda: self._plugin.unready(),
            self._notes,
        )
        await server.start()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        end_with_container()
        self._log.info("started", resource=self._settings.configuration.resource_name, metrics_port=server.port)
        if self._problem is not None:
            self._log.warning(self._words())
        try:
            await self._run_plugins()
        finally:
            server.stop()
            self._log.info("stopped")

    async def _run_plugins(self) -> None:
        running: _Running | None = self._start(self._plugin)
        while running is not None:
            self._show()
            if await self._ended(running, _LOOK_SECONDS):
                return
            settings = await self._changed()
            if settings is not None:
                running = await self._change(running, settings)

    def _start(self, plugin: Mode) -> _Running:
        return _Running(plugin, asyncio.create_task(plugin.run()))

    async def _ended(self, running: _Running, seconds: float) -> bool:
        """Waits for this time, or until the plugin has ended because we are to stop; raises what else it ended with."""
        stopped = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({running.task, stopped}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        if self._stopped.is_set():
            await running.end()
        elif running.task.done():
            running.task.result()
        return self._stopped.is_set()

    async def _changed(self) -> Settings | None:
        """Settings other than the present ones; None: they are the same, or can't be used."""
        choice = self._settings.choice
        if choice is None:
            return None
        seen = await asyncio.to_thread(choice.look)
        another = seen != self._seen
        if not another and time.monotonic() < self._read_again_at:
            return None
        self._seen, self._read_again_at = seen, math.inf
        try:
            settings = await asyncio.to_thread(self._read_settings)
            problem = settings.problem
        except UnreadableError as error:
            settings, problem = self._settings, str(error)
            self._read_again_at = time.monotonic() + self._retry_seconds
        was, self._problem = self._problem, problem
        if problem is not None:
            if another or problem != was:
                self._log.warning(self._words())
            return None
        if was is not None:
            self._log.info("the node's label names a configuration that can be used")
        if settings.configuration == self._settings.configuration:
            self._settings = settings
            return None
        return settings

    async def _change(self, former: _Running, settings: Settings) -> _Running | None:
        """Has a plugin with these settings follow the former one; None: we are to stop, and both have ended."""
        self._log.info("the settings have changed", configuration=settings.name)
        for name in _FIXED:
            if getattr(settings.configuration, name) != getattr(self._settings.configuration, name):
                self._log.warning("this takes effect when the program is started anew", setting=name)
        following = self._start(self._new_plugin(settings.configuration))
        self._following = following.plugin
        while not following.plugin.can_follow:
            if following.task.done():
                following.task.result()
            chosen_again = settings.choice is not None and await asyncio.to_thread(settings.choice.look) != self._seen
            if chosen_again or self._stopped.is_set():
                # Before the former one: that waits for whoever is about to follow.
                await following.end()
            if await self._ended(former, _READY_SECONDS):
                return None
            if chosen_again:
                self._log.info("the choice has changed again before these settings were in effect")
                # It may change back until the next look.
                self._seen, self._following = None, None
                return former
        another_way = settings.configuration.allocation is not self._settings.configuration.allocation
        self._settings, self._plugin, self._following = settings, following.plugin, None
        await former.end(for_good=another_way)
        return following

    def _show(self) -> None:
        if self._settings.name is not None:
            self._plugin.metrics.configuration(self._settings.name, self._problem)

    def _words(self) -> str:
        return f"{self._problem}; configuration {self._settings.name!r} stays in effect"

    def _notes(self) -> list[str]:
        notes = self._plugin.notes() + ([] if self._problem is None else [self._words()])
        following = self._following
        if following is not None:
            notes += [f"new settings are not in effect yet: {reason}" for reason in following.unready()]
        return notes

    def _stop(self, number: signal.Signals) -> None:
        self._log.info("stopping", signal=number.name)
        self._stopped.set()
