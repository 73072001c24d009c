"""Situations: work that runs, processes that die or fork, and what a process has."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial

from tests.simgpu.programs.checkpoint.kinds import KINDS
from tests.simgpu.programs.checkpoint.scene import STILL_THERE, Scene
from tests.simgpu.programs.checkpoint.states import STEPS

SPIN_MS = 2000
SAME_MIB = 8


def busy(scene: Scene) -> None:
    """A lock while a kernel runs: with a timeout, then without."""
    caller, target = scene.caller(), scene.target("memory")
    target("spin", SPIN_MS, False)
    scene.step(caller, "lock", target.pid, " with 100 ms beside a kernel", timeout_ms=100)
    scene.say("state", caller("state", target.pid))
    target.tell("spin", 0, False)
    scene.say("a launch then", target.answer(2.0))
    scene.step(caller, "lock", target.pid, " without a timeout beside a kernel", timeout_ms=0)
    scene.say("state", caller("state", target.pid))
    scene.steps(caller, target.pid, ("checkpoint", "restore", "unlock"))
    scene.say("intact", target("intact"))


def busy_checkpoint(scene: Scene) -> None:
    """A thread waits in the driver for a kernel while the process is locked and checkpointed."""
    caller, target = scene.caller(), scene.target("memory")
    target("spin", SPIN_MS // 2, False)
    target.tell("spin", SPIN_MS // 2, True)
    time.sleep(0.1)
    scene.step(caller, "lock", target.pid, " with 100 ms", timeout_ms=100)
    scene.say("state", caller("state", target.pid))
    scene.step(caller, "lock", target.pid, " with 5 s", timeout_ms=5000)
    scene.say("what waited has been told", target.answer(2.0))
    scene.say("state", caller("state", target.pid))
    scene.steps(caller, target.pid, ("checkpoint", "restore", "unlock"))


def two_callers(scene: Scene) -> None:
    """Two lock at the same time, beside a kernel; the second one takes the steps that follow."""
    first, second, target = scene.caller(), scene.caller(), scene.target("memory")
    target("spin", SPIN_MS // 2, False)
    first.tell("step", "lock", target.pid, 0)
    time.sleep(0.2)
    scene.step(second, "lock", target.pid, " by a second caller", timeout_ms=100)
    answer = first.answer()
    scene.say("lock by the first", answer[0] if isinstance(answer, tuple) else answer)
    scene.steps(second, target.pid, ("checkpoint", "restore", "unlock"))
    scene.say("intact", target("intact"))


def _ends(scene: Scene, steps: tuple[str, ...], how: signal.Signals | None) -> None:
    watcher = scene.target()
    before = scene.memory(watcher, "before it starts")
    target = scene.target("memory", 16)
    scene.steps(watcher, target.pid, steps)
    begun = time.monotonic()
    if how is None:
        target.tell("leave")
    ended = target.end() if how is None else target.kill(how)
    scene.say("how it ended", ended)
    scene.measure("ended after ms", f"{(time.monotonic() - begun) * 1000:.0f}")
    time.sleep(0.2)
    scene.say("nothing is left on the device", abs(scene.memory(watcher, "when it has ended") - before) <= SAME_MIB)
    scene.say("state", watcher("state", target.pid))
    if ended == STILL_THERE:
        scene.steps(watcher, target.pid, ("restore", "unlock"))
        scene.say("how it ended after unlock", target.end())


def caller_dies(scene: Scene) -> None:
    """The caller dies after each step; another one goes on."""
    target = scene.target("memory")
    for step in STEPS:
        caller = scene.caller()
        scene.step(caller, step, target.pid)
        caller.kill()
        scene.say("state for another", scene.caller()("state", target.pid))
    scene.say("intact", target("intact"))


def caller_dies_within(scene: Scene) -> None:
    """The caller dies in the middle of a checkpoint, of a restore, and while a lock waits."""
    target, other = scene.target("memory", 256), scene.caller()
    scene.steps(other, target.pid, ("lock",))
    for step in ("checkpoint", "restore"):
        caller = scene.caller()
        caller.tell("step", step, target.pid)
        time.sleep(0.05)
        scene.measure(f"caller in {step}", caller.kill())
        scene.measure(f"state right after {step}", other("state", target.pid))
        time.sleep(1.0)
        scene.measure(f"state a second after {step}", other("state", target.pid))
    scene.steps(other, target.pid, ("unlock",))
    target("spin", SPIN_MS // 2, False)
    caller = scene.caller()
    caller.tell("step", "lock", target.pid, 0)
    time.sleep(0.1)
    caller.kill()
    time.sleep(1.2)
    scene.measure("state after a lock whose caller died", other("state", target.pid))
    scene.measure("unlock", other("step", "unlock", target.pid))
    scene.measure("intact", target("intact"))


def target_dies_within(scene: Scene) -> None:
    """The process dies while a lock waits for it, and in the middle of a checkpoint."""
    caller, target, other = scene.caller(), scene.target(), scene.target("memory", 256)
    target("spin", SPIN_MS, False)
    caller.tell("step", "lock", target.pid, 0)
    time.sleep(0.2)
    scene.say("killed", target.kill())
    answer = caller.answer()
    scene.say("lock of a process that dies", answer[0] if isinstance(answer, tuple) else answer)
    scene.step(caller, "lock", other.pid)
    caller.tell("step", "checkpoint", other.pid)
    time.sleep(0.05)
    scene.say("killed", other.kill())
    scene.measure("checkpoint of a process that dies", caller.answer())


def stopped(scene: Scene) -> None:
    """The process is stopped before the lock, and before the checkpoint."""
    caller, target = scene.caller(), scene.target("memory")
    os.kill(target.pid, signal.SIGSTOP)
    scene.say("state of a stopped one", caller("state", target.pid))
    caller.tell("step", "lock", target.pid, 200)
    answer = caller.answer(2.0)
    scene.say("lock of a stopped one, 200 ms", answer[0] if isinstance(answer, tuple) else answer)
    os.kill(target.pid, signal.SIGCONT)
    time.sleep(0.3)
    other = scene.caller()
    scene.say("state when it goes on", other("state", target.pid))
    scene.step(other, "lock", target.pid)
    os.kill(target.pid, signal.SIGSTOP)
    other.tell("step", "checkpoint", target.pid)
    answer = other.answer(2.0)
    scene.say("checkpoint of a stopped one", answer[0] if isinstance(answer, tuple) else answer)
    os.kill(target.pid, signal.SIGCONT)
    time.sleep(1.0)
    scene.steps(scene.caller(), target.pid, ("restore", "unlock"))
    scene.say("intact", target("intact"))


def forks(scene: Scene) -> None:
    """A child of the process, forked before; a process that is started while its sibling is checkpointed."""
    caller, target = scene.caller(), scene.target("memory")
    child = target("fork")
    scene.say("state of its child", caller("state", child))
    scene.step(caller, "lock", child, " of its child", timeout_ms=200)
    scene.sleep(caller, target.pid)
    scene.say("state of its child while it is checkpointed", caller("state", child))
    later = target("fork")
    scene.say("state of a child forked while checkpointed", caller("state", later))
    sibling = scene.target("memory")
    scene.say("a sibling that starts meanwhile works", sibling("intact"))
    scene.wake(caller, target.pid)
    scene.say("intact", target("intact"))


def shared(scene: Scene, steps: tuple[str, ...], whose: str) -> None:
    """Memory that one process gave by CUDA IPC and another has opened."""
    caller, giver, taker = scene.caller(), scene.target(), scene.target()
    handle = giver("give", 2)
    if whose != "gave":
        scene.say("open", taker("open", handle))
    scene.steps(caller, (taker if whose == "opened" else giver).pid, steps)
    if whose == "gave":
        scene.say("open", taker("open", handle))
    scene.say("intact", giver("intact"))
    scene.say("the other works", taker("intact"))


def no_room(scene: Scene) -> None:
    """A restore while somebody else has taken all of the device's memory, and again when that has ended."""
    caller, target = scene.caller(), scene.target("memory", 256)
    scene.sleep(caller, target.pid)
    filler = scene.target()
    scene.say("fill up", filler("fill_up", 128))
    scene.memory(filler, "full")
    scene.steps(caller, target.pid, ("restore", "restore", "unlock"), " without room")
    scene.memory(filler, "after the restore")
    scene.say("who took it ended", filler.kill())
    scene.steps(caller, target.pid, ("restore", "unlock"), " with room")
    scene.say("intact", target("intact"))


def _has(scene: Scene, kind: str) -> None:
    caller, target = scene.caller(), scene.target(kind, 4)
    scene.sleep(caller, target.pid)
    scene.wake(caller, target.pid)
    scene.say("intact", target("intact"))


def _size(scene: Scene, mib: int) -> None:
    caller, target = scene.caller(), scene.target("memory", mib)
    scene.sleep(caller, target.pid)
    scene.wake(caller, target.pid)
    scene.say("intact", target("intact"))


LIVES: dict[str, Callable[[Scene], None]] = {
    "busy": busy,
    "busy_checkpoint": busy_checkpoint,
    "caller_dies": caller_dies,
    "sigterm": partial(_ends, steps=("lock", "checkpoint"), how=signal.SIGTERM),
    "sigkill": partial(_ends, steps=("lock", "checkpoint"), how=signal.SIGKILL),
    "sigkill_locked": partial(_ends, steps=("lock",), how=signal.SIGKILL),
    "exits": partial(_ends, steps=("lock", "checkpoint"), how=None),
    "size_10": partial(_size, mib=10),
    "size_256": partial(_size, mib=256),
    **{f"has_{kind}": partial(_has, kind=kind) for kind in KINDS},
    "forks": forks,
    "stopped": stopped,
    "two_callers": two_callers,
    "target_dies_within": target_dies_within,
    "caller_dies_within": caller_dies_within,
    **{f"ipc_{whose}": partial(shared, steps=STEPS, whose=whose) for whose in ("gave", "shares", "opened")},
}
LARGE: dict[str, Callable[[Scene], None]] = {"no_room": no_room}
"""Those that take all of the device's memory: played only if they are named."""
