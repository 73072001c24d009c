"""Situations: the steps and the states, in and out of order, and who may call them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from tests.simgpu.programs.checkpoint.probes import PROBES
from tests.simgpu.programs.checkpoint.scene import DEAD, Scene, Worker

STEPS = ("lock", "checkpoint", "restore", "unlock")
NOBODY = 65534
SAME_MIB = 8
"""So much may differ in what is free when nobody has allocated anything."""


def order(scene: Scene) -> None:
    """All steps, with what others see of the device's memory."""
    watcher = scene.target()
    before = scene.memory(watcher, "before it starts")
    target = scene.target("memory", 64)
    with_it = scene.memory(watcher, "while it runs")
    scene.say("it takes memory", before - with_it > SAME_MIB)
    scene.say("state", watcher("state", target.pid))
    scene.say("thread", watcher("thread", target.pid))
    scene.step(watcher, "lock", target.pid)
    scene.say("state after lock", watcher("state", target.pid))
    scene.say("as much is free while it is locked", abs(scene.memory(watcher, "locked") - with_it) <= SAME_MIB)
    scene.step(watcher, "checkpoint", target.pid)
    scene.say("state after checkpoint", watcher("state", target.pid))
    scene.say("thread", watcher("thread", target.pid))
    scene.say("it has nothing now", abs(scene.memory(watcher, "checkpointed") - before) <= SAME_MIB)
    scene.step(watcher, "restore", target.pid)
    scene.say("state after restore", watcher("state", target.pid))
    scene.say("it has all again", abs(scene.memory(watcher, "restored") - with_it) <= SAME_MIB)
    scene.step(watcher, "unlock", target.pid)
    scene.say("state after unlock", watcher("state", target.pid))
    scene.say("intact", target("intact"))
    scene.memory(watcher, "after it was used again")


def wrong_order(scene: Scene) -> None:
    """Every step in every state, the right one last."""
    caller, target = scene.caller(), scene.target("memory")
    for state, right in (("running", "lock"), ("locked", "checkpoint"), ("checkpointed", "restore")):
        wrong = [step for step in STEPS if step != right and (state, step) != ("locked", "unlock")]
        scene.steps(caller, target.pid, wrong, f" while {state}")
        scene.steps(caller, target.pid, [right], f" while {state}")
    scene.steps(caller, target.pid, ("lock", "restore", "unlock", "unlock"), " after restore")
    scene.say("intact", target("intact"))


def lock_and_unlock(scene: Scene) -> None:
    """Without a checkpoint between, and three times all of it."""
    caller, target = scene.caller(), scene.target("memory")
    scene.steps(caller, target.pid, ("lock", "unlock"))
    for _ in range(3):
        scene.sleep(caller, target.pid)
        scene.wake(caller, target.pid)
    scene.say("intact", target("intact"))


def arguments(scene: Scene) -> None:
    """None at all, and such as are reserved."""
    caller, target = scene.caller(), scene.target("memory")
    scene.say("no place for the answer", caller("null_answers", target.pid))
    for step, before in zip(STEPS, (0, 1, 2, 1), strict=True):
        scene.step(caller, step, target.pid, " with something reserved", timeout_ms=5000, reserved=1)
        scene.say("state", caller("state", target.pid))
        if caller("state", target.pid) == f"0, state {before}":
            scene.step(caller, step, target.pid, " without arguments", timeout_ms=None)
            scene.say("state", caller("state", target.pid))
    scene.say("intact", target("intact"))


def wrong_processes(scene: Scene) -> None:
    """Processes that use no device, or are none."""
    caller, plain, initialized, dead = scene.caller(), Worker(), scene.caller(), scene.target()
    dead.kill()
    wrong = {
        "a process without CUDA": plain.pid, "one that only called cuInit": initialized.pid, "a dead one": dead.pid,
        "pid 0": 0, "pid -1": -1, "pid 1": 1, "no pid": 0x7FFFFFFF,
    }  # fmt: skip
    for text, pid in wrong.items():
        scene.say(f"state of {text}", caller("state", pid))
        scene.say(f"thread of {text}", caller("thread", pid))
        for step in STEPS:
            scene.step(caller, step, pid, f" {text}", timeout_ms=200)


def oneself(scene: Scene) -> None:
    """A process names its own pid."""
    target = scene.target("memory")
    scene.say("state", target("state", target.pid))
    scene.say("thread", target("thread", target.pid))
    scene.step(target, "checkpoint", target.pid)
    scene.step(target, "lock", target.pid, timeout_ms=200)
    scene.say("state for others", scene.caller()("state", target.pid))


def callers(scene: Scene) -> None:
    """Callers that have not called cuInit, and a sleeper that calls for another one."""
    target, other, raw = scene.target("memory"), scene.target("memory"), Worker()
    scene.say("state, asked without cuInit", raw("state", target.pid))
    scene.say("thread, asked without cuInit", raw("thread", target.pid))
    for step in STEPS:
        scene.step(raw, step, target.pid, " without cuInit")
    caller = scene.caller()
    scene.sleep(caller, target.pid)
    scene.say("state of another, asked by one that is checkpointed", target("state", other.pid))
    scene.say("still able to speak", target("fork") > 0)


def other_user(scene: Scene) -> None:
    """A caller without rights over the process, and one that loses them between the steps."""
    caller, target, stranger = scene.caller(), scene.target("memory"), Worker()
    if os.geteuid() != 0:
        scene.measure("left out", "needs root")
        return
    scene.say("become another user", stranger("become", NOBODY))
    scene.say("cuInit", stranger("initialize"))
    scene.say("state", stranger("state", target.pid))
    scene.say("thread", stranger("thread", target.pid))
    for step in STEPS:
        scene.step(stranger, step, target.pid)
    scene.sleep(caller, target.pid)
    scene.say("state while checkpointed", stranger("state", target.pid))
    scene.step(stranger, "restore", target.pid)
    scene.say("root goes on: state", caller("state", target.pid))
    own = Worker()
    scene.say("become another user", own("become", NOBODY))
    scene.say("start as another user", own("start"))
    scene.say("state of a process of the same user", stranger("state", own.pid))
    scene.steps(stranger, own.pid, STEPS, " of a process of the same user")
    scene.say("root: state of a process of another user", caller("state", own.pid))
    scene.steps(caller, own.pid, STEPS, " by root of a process of another user")


def _threads(scene: Scene, steps: tuple[str, ...], back: tuple[str, ...]) -> None:
    caller, target = scene.caller(), scene.target()
    probes = target("probes")
    target("prepare", probes)
    scene.steps(caller, target.pid, steps)
    answered = target("go", 2.0)
    for name in probes:
        scene.say(f"{name} meanwhile", answered.get(name, "waits"))
    scene.steps(caller, target.pid, back)
    answered = target("go", 2.0)
    for name in probes:
        scene.say(f"{name} afterwards", answered.get(name, "waits"))


def threads_locked(scene: Scene) -> None:
    """What threads are told while their process is locked."""
    _threads(scene, ("lock",), ("unlock",))


def threads_restored(scene: Scene) -> None:
    """The same when it is restored and not yet unlocked."""
    _threads(scene, ("lock", "checkpoint", "restore"), ("unlock",))


def thread_checkpointed(scene: Scene, name: str) -> None:
    """What one thread is told while its process is checkpointed: some calls end the process."""
    caller, target = scene.caller(), scene.target()
    target("prepare", [name])
    for step in ("lock", "checkpoint"):
        scene.step(caller, step, target.pid)
    answered = target("go", 0.5)
    if answered == DEAD:
        scene.say(f"{name} meanwhile", f"the process ends, {target.end()}")
        return
    scene.say(f"{name} meanwhile", answered.get(name, "waits"))
    for step in ("restore", "unlock"):
        scene.step(caller, step, target.pid)
    scene.say(f"{name} afterwards", target("go", 2.0).get(name, "waits"))


def checkpointed() -> dict[str, Callable[[Scene], None]]:
    """A situation for each call that threads can make."""
    names = ("cuLaunchKernel", *PROBES)
    return {f"checkpointed_{name}": partial(thread_checkpointed, name=name) for name in names}
