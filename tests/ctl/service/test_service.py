"""``nvshare-ctl service``: one command makes a scheduler the machine's.

systemd does not run where tests do. What stands for ``systemctl`` starts and ends what the unit says, and writes down
what it was told; the unit itself is read by systemd's own ``systemd-analyze``.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from nvshare.paths import RunDir
from tests.conftest import Libraries
from tests.ctl.program import COMMAND
from tests.layout.tree import PACKAGE
from tests.polling import poll_until
from tests.real_user import as_root

pytestmark = [
    as_root,
    pytest.mark.skipif(
        any(PACKAGE.is_relative_to(hidden) for hidden in ("/home", "/root", "/tmp")),
        reason="the source tree is where no service may have its program",
    ),
]

_SYSTEMCTL = """#!/bin/sh
echo "$*" >> {told}
case "$*" in
restart*)
    command=$(sed -n 's/^ExecStart=//p' /etc/systemd/system/nvshare-scheduler.service | tr -d '"')
    setsid $command --pod-resources /nonexistent < /dev/null > {log} 2>&1 &
    echo $! > {pid} ;;
disable*) kill "$(cat {pid})" ;;
is-active*) test -e {pid} && kill -0 "$(cat {pid})" && echo active || {{ echo inactive; exit 3; }} ;;
esac
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A machine with systemd, where nvshare is installed for all users in ``installation``."""

    root: Path
    installation: Path = Path("/opt/nvshare")

    @property
    def program(self) -> Path:
        """The installed scheduler, as it is seen from outside."""
        return self.root / "opt" / "nvshare" / "bin" / "nvshare-scheduler"

    @property
    def run_dir(self) -> RunDir:
        """The system's."""
        return RunDir(self.root / "system")

    @property
    def units(self) -> Path:
        """systemd's folder of units."""
        return self.root / "units"

    def told(self) -> list[str]:
        """What systemctl was told, but for questions."""
        log = self.root / "told"
        return [line for line in log.read_text().splitlines() if "is-active" not in line] if log.exists() else []

    def within(self, *command: str, systemd: bool = True) -> list[str]:
        """A command on it."""
        enter = [
            "mount -t tmpfs none /run",
            f"mkdir -p /run/nvshare /run/python {'/run/systemd/system' if systemd else ''}",
            f"mount --bind {self.root}/system /run/nvshare",
            f"mount --bind {self.units} /etc/systemd/system",
            f"mount --bind {sys.base_prefix} /run/python",
            f"mount --bind {self.root}/opt /opt",
            'exec "$@"',
        ]
        return ["unshare", "--mount", "sh", "-c", " && ".join(enter), "sh", *command]

    def environment(self) -> dict[str, str]:
        """Of commands on it."""
        libraries = [str(PACKAGE.parent), *(path for path in sys.path if path.endswith("site-packages"))]
        return {"PATH": f"{self.root}:/usr/bin:/bin", "PYTHONPATH": ":".join(libraries), "COLUMNS": "80"}

    def ctl(self, *arguments: str, systemd: bool = True) -> subprocess.CompletedProcess[str]:
        """nvshare-ctl of the installation."""
        command = self.within(str(self.installation / "bin" / "nvshare-ctl"), *arguments, systemd=systemd)
        return subprocess.run(command, env=self.environment(), capture_output=True, text=True, check=False, timeout=100)

    def serving(self) -> int:
        """The pid of the scheduler that serves; 0: none does."""
        with suppress(OSError, ValueError):
            return int(self.run_dir.pid_file.read_text())
        return 0


@pytest.fixture
def place(run_dir: RunDir, libraries: Libraries) -> Iterator[Place]:
    """One with nothing installed as a service; its scheduler ends with the test."""
    root = run_dir.root
    root.chmod(0o755)
    place = Place(root)
    for folder in (root / "system", root / "opt", place.units):
        folder.mkdir()
    files = {name: root / name for name in ("told", "log", "pid")}
    (root / "systemctl").write_text(_SYSTEMCTL.format(**files))
    (root / "systemctl").chmod(0o755)
    python = f"/run/python/bin/{Path(sys.executable).resolve().name}"
    subprocess.run(place.within(python, "-m", "venv", "--without-pip", str(place.installation)), check=True)
    for name, module in (("nvshare-ctl", "ctl"), ("nvshare-scheduler", "scheduler")):
        script = place.program.with_name(name)
        script.write_text(f"#!{place.installation}/bin/python\nfrom nvshare.{module}.__main__ import main\nmain()\n")
        script.chmod(0o755)
    yield place
    if pid := place.serving():
        os.kill(pid, signal.SIGKILL)


def test_one_command_makes_it_the_machines(place: Place, tool: Callable[[str], str]) -> None:
    """It writes a unit that systemd understands, starts it, and says so; and takes all of it away again."""
    assert place.ctl("service", "status").returncode == 3
    done = place.ctl("service", "install")
    assert (done.returncode, done.stderr) == (0, "")
    assert "installed /etc/systemd/system/nvshare-scheduler.service" in done.stdout
    assert place.told() == ["daemon-reload", "enable nvshare-scheduler.service", "restart nvshare-scheduler.service"]
    unit = place.units / "nvshare-scheduler.service"
    assert f'ExecStart="{place.installation}/bin/nvshare-scheduler"' in unit.read_text().splitlines()
    bind = ["unshare", "--mount", "sh", "-c", f'mount --bind {place.root}/opt /opt && exec "$@"', "sh"]
    verify = [*bind, tool("systemd-analyze"), "verify", "--man=no", str(unit)]
    checked = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    poll_until(place.serving, "the scheduler serves")
    poll_until(lambda: place.ctl("service", "status").returncode == 0, "the status says so")
    done = place.ctl("service", "uninstall")
    assert (done.returncode, done.stderr) == (0, "")
    assert place.told()[3:] == ["disable --now nvshare-scheduler.service", "daemon-reload"]
    assert not unit.exists()
    done = place.ctl("service", "uninstall")
    assert (done.returncode, done.stdout) == (1, "")
    assert "nothing is installed" in done.stderr


def test_takes_the_place_of_one_in_the_background(place: Place) -> None:
    """A scheduler of root's at the machine's place ends, and the service follows it."""
    assert place.ctl("run", "--", "true").returncode == 0
    former = place.serving()
    assert former
    assert place.ctl("service", "install").returncode == 0
    poll_until(lambda: place.serving() not in (0, former), "the service's scheduler serves")


def test_where_there_is_no_systemd(place: Place) -> None:
    """One line that says so, and nothing is written."""
    done = place.ctl("service", "install", systemd=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "systemd does not run here (/run/systemd/system is missing)" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(place.units.iterdir())


def test_only_what_is_roots_is_started(place: Place) -> None:
    """A program that others may change, or that is in a home, becomes no service; nor does a user install one."""
    program, inside = place.program, place.installation / "bin" / "nvshare-scheduler"
    program.chmod(0o777)
    done = place.ctl("service", "install")
    assert done.returncode == 1
    assert f"others than root may change {inside}, which the service would execute" in done.stderr
    # No index has nvshare; what somebody else calls so there is not for root to install.
    assert done.stderr.endswith(
        "in nvshare's source tree: python3 -m venv /opt/nvshare && /opt/nvshare/bin/pip install .\n"
    )
    program.chmod(0o755)
    os.chown(program.parent, 1000, 1000)
    assert f"others than root may change {inside.parent}" in place.ctl("service", "install").stderr
    moved = ["sh", "-c", f"mount -t tmpfs none /home && cp -a {place.installation} /home/x && exec /home/x/bin/python"]
    command = place.within(*moved[:2], f"{moved[2]} /home/x/bin/nvshare-ctl service install")
    done = subprocess.run(command, env=place.environment(), capture_output=True, text=True, check=False)
    assert "which is in /home" in done.stderr
    user = shlex.join([*COMMAND, "service", "install"])
    rights = "--inh-caps=-all,+dac_read_search --ambient-caps=+dac_read_search"
    command = ["sh", "-c", f"exec setpriv --reuid=1000 --clear-groups {rights} {user}"]
    done = subprocess.run(command, env=place.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "sudo nvshare-ctl service install" in done.stderr
    assert place.told() == []
