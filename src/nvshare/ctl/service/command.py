"""The commands ``install``, ``uninstall`` and ``status``."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import typer

from nvshare import paths
from nvshare.ctl.advice import FOR_ALL
from nvshare.ctl.command_class import Command
from nvshare.ctl.errors import CommandError, ExitCode
from nvshare.ctl.service import former, systemd
from nvshare.paths import RunDir
from nvshare.scheduler_process import answers

_HELP = "The scheduler that all users of this machine share, as a service of systemd."

_INSTALL_HELP = """
Make one scheduler the machine's: it starts now and with the machine, and all users' programs go to it.

Programs that run stay: schedulers of users' own end as soon as it serves their GPUs, and their programs come to it. \
It has to be run as root, by an installation that belongs to root and is not in anybody's home.

[bold]Example:[/bold]

  sudo /opt/nvshare/bin/nvshare-ctl service install
"""
_UNINSTALL_HELP = """
End the service and take it away; programs that run then wait, until somebody starts a scheduler.

What was set stays in /var/run/nvshare until the machine starts anew.
"""
_STATUS_HELP = """
Say whether the service is installed and runs. Exit code 3: it does not run.
"""

_SYSTEM = RunDir(paths.SYSTEM_RUN_DIR)
_HIDDEN = tuple(map(Path, ("/home", "/root", "/run/user", "/tmp", "/var/tmp")))
"""What ProtectHome= and PrivateTmp= in the unit hide."""


def build() -> typer.Typer:
    """The command with its parts."""
    commands = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode="rich")
    for name, work, text in (
        ("install", install, _INSTALL_HELP),
        ("uninstall", uninstall, _UNINSTALL_HELP),
        ("status", status, _STATUS_HELP),
    ):
        commands.command(name, cls=Command, help=text)(work)
    return commands


def install() -> None:
    """See the help."""
    _check_root("install")
    systemd.check()
    systemd.install(_program(), _end_former)
    print(f"installed {systemd.UNIT_FILE}; the machine's scheduler runs, and starts with the machine")


def _end_former() -> None:
    if not systemd.is_active():
        former.end(_SYSTEM)


def uninstall() -> None:
    """See the help."""
    _check_root("uninstall")
    systemd.check()
    if not systemd.UNIT_FILE.exists():
        raise CommandError(f"there is no {systemd.UNIT_FILE}: nothing is installed")
    systemd.uninstall()
    print(f"ended the service and removed {systemd.UNIT_FILE}")


def status() -> None:
    """See the help."""
    if not systemd.UNIT_FILE.exists():
        what = f"not installed ({systemd.UNIT_FILE} is missing): {FOR_ALL}"
    else:
        what = f"{systemd.UNIT_FILE}: {systemd.state()}"
    print(what)
    serves = answers(_SYSTEM)
    print(f"a scheduler serves all users at {_SYSTEM.root}" if serves else f"no scheduler answers at {_SYSTEM.root}")
    if not (serves and systemd.UNIT_FILE.exists()):
        raise typer.Exit(ExitCode.NO_SCHEDULER)


def _check_root(what: str) -> None:
    if os.geteuid() != 0:
        raise CommandError(f"only root may do that: sudo nvshare-ctl service {what}", ExitCode.NOT_PERMITTED)


def _program() -> Path:
    """The scheduler's program of this installation, which the service can and may start."""
    program = Path(sys.argv[0]).absolute().with_name("nvshare-scheduler")
    if not program.is_file():
        program = Path(shutil.which("nvshare-scheduler", path=str(Path(sys.executable).parent)) or program)
    venv = "/opt/nvshare"
    elsewhere = f"install for all users, in nvshare's source tree: python3 -m venv {venv} && {venv}/bin/pip install ."
    if not program.is_file():
        raise CommandError(f"{program} is missing; {elsewhere}")
    for real in (program, Path(sys.executable).resolve(), Path(sys.base_prefix).resolve(), Path(__file__).resolve()):
        if hidden := next((folder for folder in _HIDDEN if real.is_relative_to(folder)), None):
            raise CommandError(f"the service does not see {real}, which is in {hidden}; {elsewhere}")
        for each in (real, *real.parents):
            found = each.stat()
            # In a folder with the sticky bit nobody can replace what is root's.
            if found.st_uid != 0 or (found.st_mode & 0o022 and not found.st_mode & 0o1000):
                raise CommandError(f"others than root may change {each}, which the service would execute; {elsewhere}")
    return program
