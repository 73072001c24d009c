"""``kubectl nvshare`` as kubectl starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from nvshare import paths

COMMAND = (sys.executable, "-m", "nvshare.ctl.kubectl")


def plugin_environment(kubeconfig: Path | str | None, columns: int = 120, **more: str) -> dict[str, str]:
    """What it finds: a kubeconfig, or none."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "COLUMNS": str(columns),
        "PYTHONPATH": str(Path(paths.__file__).parents[1]),
    }
    return environment | ({} if kubeconfig is None else {"KUBECONFIG": str(kubeconfig)}) | more


def plugin(kubeconfig: Path | str | None, *arguments: str, columns: int = 120) -> subprocess.CompletedProcess[str]:
    """Runs it to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=plugin_environment(kubeconfig, columns),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
