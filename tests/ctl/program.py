"""nvshare-ctl in a fresh process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from nvshare import paths

COMMAND = (sys.executable, "-m", "nvshare.ctl")


def environment(run_dir: paths.RunDir, **more: str) -> dict[str, str]:
    """What the process finds: its run directory, a wide enough terminal, and the source tree."""
    source = Path(paths.__file__).parents[1]
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, "PYTHONPATH": str(source), paths.RUN_DIR: str(run_dir.root), "COLUMNS": "80", **more}


def ctl(run_dir: paths.RunDir, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs it to its end; ``more`` are further environment variables."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environment(run_dir, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
