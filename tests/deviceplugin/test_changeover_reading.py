"""Settings that change while reading them fails."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from structlog.testing import CapturingLogger

from nvshare.deviceplugin.changeover import Changeover, UnreadableError
from nvshare.deviceplugin.metrics import Metrics
from nvshare.deviceplugin.settings.choice import Choice, Settings
from nvshare.deviceplugin.settings.choosing import choose
from nvshare.deviceplugin.settings.configuration import Configuration
from tests.polling import until

FLAGS = {"metrics_address": "127.0.0.1:0"}


class FakePlugin:
    """A plugin that can follow at once."""

    can_follow = True

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.metrics = Metrics(int)
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        await self._stopped.wait()

    def stop(self, *, for_good: bool) -> None:
        self._stopped.set()

    def notes(self) -> list[str]:
        return []

    def unready(self) -> list[str]:
        return []


async def test_reading_fails_in_passing(tmp_path: Path) -> None:
    """As when memory is short: the settings are read again though nothing has changed; it is said once."""
    (tmp_path / "default.yaml").write_text("virtual_devices: 10")
    choice = Choice(tmp_path, "default", tmp_path / "label")
    failures = ["exit status -9"] * 3
    plugins: list[FakePlugin] = []
    log = CapturingLogger()

    def new_plugin(configuration: Configuration) -> FakePlugin:
        plugins.append(FakePlugin(configuration))
        return plugins[-1]

    def read() -> Settings:
        if failures:
            raise UnreadableError(failures.pop())
        return choose(choice, FLAGS, {})

    changeover = Changeover(choose(choice, FLAGS, {}), new_plugin, read, log, retry_seconds=0.01)
    running = asyncio.create_task(changeover.run())
    (tmp_path / "default.yaml").write_text("virtual_devices: 3")
    await until(lambda: len(plugins) == 2, "the new settings are in effect", timeout=30)
    os.kill(os.getpid(), signal.SIGTERM)
    await running
    assert plugins[-1].configuration.virtual_devices == 3
    assert [call.args[0] for call in log.calls].count("exit status -9; configuration 'default' stays in effect") == 1
