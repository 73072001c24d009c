"""systemd's side: the unit's file, and what systemctl is told."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Final

from nvshare.ctl.errors import CommandError
from nvshare.ctl.new_file import written_beside

UNIT: Final = "nvshare-scheduler.service"
UNIT_FILE: Final = Path("/etc/systemd/system") / UNIT
_RUNS: Final = Path("/run/systemd/system")
"""There where systemd is the first process: sd_booted(3)."""
_SECONDS: Final = 120.0
_SHIPPED: Final = "ExecStart=/opt/nvshare/bin/nvshare-scheduler\n"


def check() -> None:
    """CommandError where systemd does not run."""
    if not _RUNS.is_dir():
        raise CommandError(
            f"systemd does not run here ({_RUNS} is missing): have what starts this machine's services start "
            "nvshare-scheduler as root"
        )


def unit(program: Path) -> str:
    """The unit's text for a scheduler's program."""
    shipped = resources.files("nvshare.ctl.service").joinpath(UNIT).read_text()
    # systemd reads backslashes, quotes and percent signs in its own way.
    quoted = str(program).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return shipped.replace(_SHIPPED, f'ExecStart="{quoted}"\n')


def install(program: Path, make_way: Callable[[], None]) -> None:
    """Writes the unit, and starts it now and with the machine; CommandError if that fails.

    ``make_way`` is called when the unit can be written, and before it is there.
    """
    try:
        with written_beside(UNIT_FILE, unit(program)) as new:
            new.chmod(0o644)
            make_way()
            new.rename(UNIT_FILE)
    except OSError as error:
        raise CommandError(f"cannot write {UNIT_FILE}: {error.strerror}; it is as it was") from error
    _systemctl("daemon-reload")
    _systemctl("enable", UNIT)
    # One that runs already is the former version's.
    _systemctl("restart", UNIT)


def uninstall() -> None:
    """Stops the service and removes its unit; CommandError if that fails."""
    _systemctl("disable", "--now", UNIT)
    try:
        UNIT_FILE.unlink(missing_ok=True)
    except OSError as error:
        raise CommandError(f"cannot remove {UNIT_FILE}: {error.strerror}") from error
    _systemctl("daemon-reload")


def is_active() -> bool:
    """Whether the service runs."""
    return state() == "active"


def state() -> str:
    """What systemctl calls the service's state: active, inactive, failed ..."""
    try:
        done = _run("is-active", UNIT)
    except OSError as error:
        return f"not known (systemctl: {error.strerror})"
    except subprocess.TimeoutExpired:
        return f"not known (systemctl does not answer within {_SECONDS:g} s)"
    return done.stdout.strip() or "not known"


def _systemctl(*arguments: str) -> None:
    command = f"systemctl {' '.join(arguments)}"
    try:
        done = _run(*arguments)
    except OSError as error:
        raise CommandError(f"{command} can't be executed: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise CommandError(f"{command} takes longer than {_SECONDS:g} s; see: journalctl -u {UNIT}") from None
    if done.returncode:
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise CommandError(f"{command} failed: {said}; see: journalctl -u {UNIT}")


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemctl", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
