"""Files that take nothing more: why a scheduler does not start is said where somebody reads it."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

from nvshare.paths import RunDir
from nvshare.scheduler_process import SchedulerStartError, wait_until_accepting
from tests.ctl.program import COMMAND, environment

pytestmark = pytest.mark.usefixtures("libraries")


def test_the_log_that_cannot_be_written(run_dir: RunDir, tmp_path: Path) -> None:
    """What the scheduler said is lost with its log, and the reason is not. A limit does what a full disk does."""
    out = tmp_path / "out"
    done = subprocess.run(
        [*COMMAND, "run", "--", "touch", str(out)],
        env=environment(run_dir),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    assert (done.returncode, done.stdout, out.exists()) == (125, "", False)
    reason = f"its log {run_dir.log_file} can't be written: File too large; make room there or choose another --run-dir"
    assert done.stderr == f"nvshare-ctl: the scheduler that was started ended at once, and {reason}\n"


def test_a_log_that_can_be_written(run_dir: RunDir) -> None:
    """A scheduler that said nothing has an empty log."""
    run_dir.log_file.write_text("")
    with pytest.raises(SchedulerStartError, match=r"ended at once; the end of its log [^ ]*\n  \(empty\)"):
        wait_until_accepting(run_dir, lambda: False, run_dir.log_file)
