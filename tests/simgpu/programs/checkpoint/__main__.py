"""What a driver answers to the calls of process checkpoints.

    python3 -m tests.simgpu.programs.checkpoint FILE [SITUATION...]

Run it from the root of the project, as root. It needs one GPU, real or simulated, and nothing but
Python. Each situation runs in processes of its own; those that hang are killed. Lines that begin with # were measured
and may differ. The situation no_room takes all of the GPU's memory, and is left out unless it is named.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.simgpu.programs.checkpoint import states
from tests.simgpu.programs.checkpoint.lives import LARGE, LIVES
from tests.simgpu.programs.checkpoint.scene import Scene, Worker

SITUATIONS: dict[str, Callable[[Scene], None]] = (
    {
        situation.__name__: situation
        for situation in (
            states.order,
            states.wrong_order,
            states.lock_and_unlock,
            states.threads_locked,
            states.threads_restored,
            states.wrong_processes,
            states.other_user,
            states.arguments,
            states.callers,
            states.oneself,
        )
    }
    | LIVES
    | states.checkpointed()
)
ONE_SECONDS, ALL_SECONDS, GONE_SECONDS = 40.0, 115.0, 3.0
POLL_SECONDS = 0.02
BECOME_SUBREAPER = 36


def play(name: str, file: Path, seconds: float) -> None:
    """One situation, in a process group of its own that is killed at the end."""
    scene = Scene(name, file)
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        try:
            (SITUATIONS | LARGE)[name](scene)
        except Exception as failure:
            scene.say("failed", repr(failure))
        os._exit(0)
    until = time.monotonic() + seconds
    while not (ended := os.waitpid(pid, os.WNOHANG)[0]) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    if not ended:
        scene.say("failed", "it took too long")
    _end_group(pid)


def _end_group(group: int) -> None:
    """Kills all processes of a group, and waits until what they had is the device's again."""
    until = time.monotonic() + GONE_SECONDS
    try:
        os.killpg(group, signal.SIGKILL)
        while time.monotonic() < until:
            if not os.waitpid(-group, os.WNOHANG)[0]:
                time.sleep(POLL_SECONDS)
    except (ProcessLookupError, ChildProcessError):
        return


def main() -> None:
    """All situations, or those that are named."""
    file = Path(sys.argv[1])
    file.write_text("")
    begun = time.monotonic()
    # Whoever loses its parent becomes this process's child, so that its end can be waited for.
    ctypes.CDLL(None).prctl(BECOME_SUBREAPER, 1, 0, 0, 0)
    # Without it a real driver that nobody else uses would start anew for each situation.
    first = Worker()
    first("start")
    for name in sys.argv[2:] or SITUATIONS:
        left = begun + ALL_SECONDS - time.monotonic()
        if left < 1:
            Scene(name, file).say("failed", "no time was left")
        else:
            play(name, file, min(left, ONE_SECONDS))
    first.kill()
    print(file.read_text(), end="")
    print(f"# all took {time.monotonic() - begun:.0f} s")


main()
