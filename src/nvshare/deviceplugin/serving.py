"""From settings to a plugin that serves: what it finds around it, its log, and its end where it can't."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Never

from nvshare import shim
from nvshare.deviceplugin.allocation import VOLUME_MOUNTS_DIR
from nvshare.deviceplugin.configuration import Configuration
from nvshare.deviceplugin.discovery import Selection
from nvshare.deviceplugin.host import DeadFolderError
from nvshare.deviceplugin.install import InstallError, Library, read_library
from nvshare.deviceplugin.nvml import Nvml
from nvshare.deviceplugin.plugin import NvmlMissingError, Plugin
from nvshare.http import AddressError
from nvshare.log import Log, LogLines, opened_log
from nvshare.paths import NVIDIA_VISIBLE_DEVICES
from nvshare.program import complain
from nvshare.version import version


def serve(name: str, configuration: Configuration, environment: Mapping[str, str]) -> None:
    """Returns when the plugin was told to end; a program of this name that can't serve says why and exits."""
    try:
        library = read_library(shim.library_path(), version())
    except (InstallError, FileNotFoundError) as error:
        _fail(name, error)
    try:
        with opened_log(configuration.log_format, configuration.log_level, sys.stderr) as (log, lines):
            asyncio.run(_run(configuration, environment, library, log, lines))
    except NvmlMissingError as error:
        # The log has said it.
        raise SystemExit(1) from error
    except (AddressError, DeadFolderError) as error:
        _fail(name, error)


async def _run(
    configuration: Configuration, environment: Mapping[str, str], library: Library, log: Log, lines: LogLines
) -> None:
    selection = Selection(
        visible=environment.get(NVIDIA_VISIBLE_DEVICES),
        mounted=_mounted(),
        include=configuration.include,
        exclude=configuration.exclude,
        configured=tuple(configuration.virtual_devices_per_gpu),
        mig=configuration.mig_strategy,
    )
    owner = environment.get("HOSTNAME") or f"pid {os.getpid()}"
    await Plugin(configuration, selection, library, Nvml, owner, log, lines).run()


def _mounted() -> tuple[str, ...]:
    """The GPUs that the container runtime lists as mounts; none when it does not use them."""
    try:
        return tuple(sorted(entry.name for entry in VOLUME_MOUNTS_DIR.iterdir()))
    except OSError:
        return ()


def _fail(name: str, error: Exception) -> Never:
    complain(name, str(error))
    raise SystemExit(1) from error
