"""From settings to a plugin that serves: what it finds around it, its log, and its end where it can't."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Never

from nvshare import shim
from nvshare.deviceplugin.changeover import Changeover, Mode, UnreadableError
from nvshare.deviceplugin.gpus.discovery import Selection
from nvshare.deviceplugin.gpus.nvml import Nvml
from nvshare.deviceplugin.host.install import InstallError, Library, read_library
from nvshare.deviceplugin.host.problems import DeadFolderError
from nvshare.deviceplugin.no_driver import NoDriver
from nvshare.deviceplugin.node_side import NvmlMissingError
from nvshare.deviceplugin.settings.choice import SETTINGS, Settings
from nvshare.deviceplugin.settings.configuration import AllocationMode, Configuration
from nvshare.http import AddressError
from nvshare.kubernetes.account import account_of
from nvshare.log import Log, LogLines, opened_log
from nvshare.paths import NVIDIA_VISIBLE_DEVICES, VOLUME_MOUNTS_DIR
from nvshare.program import complain
from nvshare.version import version

_READ_SECONDS = 60.0
_NO_ACCOUNT = (
    "there is no token of a service account in this container, by which it could write ResourceSlices and read "
    "ResourceClaims: the chart mounts it where its value allocation, or that of any configuration, is dra"
)
_NO_NAME = "--node-name is not set: give it the field spec.nodeName of the pod, as the chart does"


def serve(name: str, settings: Settings, environment: Mapping[str, str], command_line: Sequence[str]) -> None:
    """Returns when the plugin was told to end; a program of this name that can't serve says why and exits.

    ``command_line`` is what led to these settings, without the program.
    """
    configuration = settings.configuration
    try:
        library = read_library(shim.library_path(), version())
    except (InstallError, FileNotFoundError) as error:
        _fail(name, error)
    try:
        with opened_log(configuration.log_format, configuration.log_level, sys.stderr) as (log, lines):
            asyncio.run(_run(settings, environment, command_line, library, log, lines))
    except NvmlMissingError as error:
        # The log has said it.
        raise SystemExit(1) from error
    except (AddressError, DeadFolderError) as error:
        _fail(name, error)


async def _run(
    settings: Settings,
    environment: Mapping[str, str],
    command_line: Sequence[str],
    library: Library,
    log: Log,
    lines: LogLines,
) -> None:
    owner, account = environment.get("HOSTNAME") or f"pid {os.getpid()}", account_of(environment)

    def new_plugin(configuration: Configuration) -> Mode:
        selection = Selection(
            visible=environment.get(NVIDIA_VISIBLE_DEVICES),
            mounted=_mounted(),
            include=configuration.include,
            exclude=configuration.exclude,
            configured=tuple(configuration.virtual_devices_per_gpu),
            mig=configuration.mig_strategy,
        )
        # Each mode only where it is needed: what it takes stays for as long as this serves.
        if configuration.allocation is AllocationMode.PLUGIN:
            from nvshare.deviceplugin.plugin import Plugin

            return Plugin(configuration, selection, library, Nvml, owner, account, log, lines)
        if account is None:
            return NoDriver(_NO_ACCOUNT, log, lines)
        if not configuration.node_name:
            return NoDriver(_NO_NAME, log, lines)
        from nvshare.deviceplugin.driver import Driver

        return Driver(configuration, selection, library, Nvml, owner, account, log, lines)

    await Changeover(settings, new_plugin, lambda: _read_again(command_line, environment), log).run()


def _read_again(command_line: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """The settings that the command line leads to now; raises UnreadableError."""
    command = [sys.executable, "-m", "nvshare.deviceplugin", *command_line, SETTINGS]
    try:
        child = subprocess.run(command, env=environment, capture_output=True, timeout=_READ_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnreadableError(f"the settings can't be read: {error}") from error
    if child.returncode != 0:
        said = "; ".join(child.stderr.decode(errors="replace").splitlines())
        raise UnreadableError(f"the settings can't be read: {said or f'exit status {child.returncode}'}")
    settings: Settings = pickle.loads(child.stdout)
    return settings


def _mounted() -> tuple[str, ...]:
    """The GPUs that the container runtime lists as mounts; none when it does not use them."""
    try:
        return tuple(sorted(entry.name for entry in VOLUME_MOUNTS_DIR.iterdir()))
    except OSError:
        return ()


def _fail(name: str, error: Exception) -> Never:
    complain(name, str(error))
    raise SystemExit(1) from error
