"""The door in fresh processes: what waits at it, who keeps it open, and that nobody is inside while it is closed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.conftest import Libraries
from tests.polling import poll_until
from tests.shim.children import Children, cases
from tests.shim.controlled_program import ControlledProgram
from tests.shim.entrypoints import bodies, entry_points, is_gated
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.lock_server import Peer
from tests.shim.memory_peer import CHUNK
from tests.shim.swapping import Start, reach_registered, reach_written
from tests.shim.thread_state import asleep

FREE = 6
"""Entry points that pass no door: look-ups, and questions about numbers."""


@pytest.mark.parametrize("case", cases("door_cases.py"))
def test_door(children: Children, case: str) -> None:
    """What the docstring of the case claims."""
    native = Children(children.environment | {paths.MEMORY: "native"})
    native.run_python("door_cases.py", case)


def test_every_entry_point_waits(children: Children) -> None:
    """Behind a closed door no entry point reaches the driver; what is the driver's own does when it opens."""
    own = [point for point in entry_points() if not is_gated(point) and point.symbol not in bodies()]
    assert int(children.run_python("every_door.py", "0", timeout=120)) == len(own) - FREE > 390


def test_every_entry_point_fails_when_lost(children: Children) -> None:
    """Once the driver has lost the process no entry point reaches it, and each answers so."""
    assert int(children.run_python("every_door.py", "1", timeout=120)) == len(entry_points()) - FREE > 680


@pytest.mark.parametrize("denied", [[], ["deny_membarrier"]], ids=["membarrier", "fences"])
@pytest.mark.parametrize(("threads", "closings"), [(1, 4000), (6, 1000)])
def test_nobody_is_inside(
    children: Children, compile_c: Callable[..., Path], spy: Path, threads: int, closings: int, denied: list[str]
) -> None:
    """However many threads call, and come and go, while the door is closed and opened again and again.

    As with the gate: without the barrier a mark may be seen too late, in some percent of the closings.
    """
    flags = ("-shared", "-fPIC", "-pthread", str(spy / "libcuda.so.1"))
    names = ["knocking_threads", "quick_sleeps", *denied]
    knocking, scheduling, *others = [str(compile_c(f"programs/{name}.c", f"{name}.so", *flags)) for name in names]
    children.run_python("door_stress.py", knocking, scheduling, str(threads), str(closings), *others, timeout=120)


def test_linked_with_what_only_the_driver_knows(children: Children, compile_c: Callable[..., Path], spy: Path) -> None:
    """A process can never sleep in which an object is linked with a function of the driver that is in no list."""
    beyond = compile_c("programs/beyond.c", "beyond.so", "-shared", "-fPIC", str(spy / "libcuda.so.1"))
    children.run_python("door_linked.py", str(beyond))


def test_scheduler_that_can_wake_nobody(start: Callable[..., ControlledProgram], fake_scheduler: FakeScheduler) -> None:
    """Without a scheduler, or with one that is too old, calls wait for a newer one, and the user is told."""
    program = start()
    peer = fake_scheduler.serve(program)
    peer.send(wire.Sleep(1))
    peer.expect(wire.Asleep)
    fake_scheduler.die()
    program.begin("use")
    program.said("this process sleeps, and there is no scheduler to wake it")
    fake_scheduler.listen()
    old = fake_scheduler.accept()
    old.send(wire.SchedOn(client_id=1, epoch=2, level=5))
    program.said("this process sleeps, and the scheduler is too old to wake it")
    program.waits()
    old.connection.close()
    new = fake_scheduler.register(3)
    assert new.expect(wire.Asleep) == wire.Asleep(0)
    new.expect(wire.Wake)
    new.send(wire.Awake())
    assert program.answer() == "0"


def test_memory_that_is_to_come_in_behind_a_closed_door(
    start_swapping: Start, fake_scheduler: FakeScheduler, tmp_path: Path
) -> None:
    """Room that is given meanwhile is used when the door opens; no thread of the library calls the driver before."""
    trace = tmp_path / "calls"
    program = start_swapping(**{paths.SIMGPU_TRACE: str(trace)})
    memory = reach_registered(program, fake_scheduler)
    reach_written(program, memory, "x", 2 * CHUNK)
    memory.evict(0)
    memory.heard(resident_bytes=0, order=memory.order)
    fall_asleep(memory.peer)
    calls = trace.read_bytes()
    memory.allot(2 * CHUNK, 2 * CHUNK)
    memory.heard(resident_bytes=0, order=memory.order)
    poll_until(lambda: all(asleep(program.pid, thread) for thread in threads(program)), "all threads sleep")
    assert trace.read_bytes() == calls
    memory.peer.send(wire.Awake())
    memory.heard(resident_bytes=2 * CHUNK, out_bytes=0)
    program.begin("check x x")
    memory.grant()
    assert program.answer() == "right"


def fall_asleep(peer: Peer) -> None:
    """Closes the door, as soon as the mover has done what follows its last copy."""

    def answer() -> wire.Frame:
        peer.send(wire.Sleep(1))
        while isinstance(frame := peer.receive(), wire.Footprint | wire.Resident):
            pass
        return frame

    poll_until(lambda: answer() == wire.Asleep(1), "the door is closed")


def threads(program: ControlledProgram) -> list[int]:
    """Of its process."""
    return [int(task.name) for task in Path(f"/proc/{program.pid}/task").iterdir()]


def test_children_around_fork(children: Children, compile_c: Callable[..., Path]) -> None:
    """A child that was made around fork(2) waits for nothing at its calls and at its end."""
    raw_child = compile_c("programs/raw_child.c", "raw_child.so", "-shared", "-fPIC")
    Children(children.environment | {paths.MEMORY: "native"}).run_python("raw_children.py", str(raw_child))


@pytest.mark.parametrize(("connected", "late"), [(True, 0), (False, 4)])
def test_end_of_a_process_that_sleeps(
    start: Callable[..., ControlledProgram],
    fake_scheduler: FakeScheduler,
    libraries: Libraries,
    compile_c: Callable[..., Path],
    spy: Path,
    connected: bool,
    late: int,
) -> None:
    """exit waits for the scheduler that is connected, and for none otherwise, nor do calls that follow then."""
    flags = ("-shared", "-fPIC", str(spy / "libcuda.so.1"))
    late_call = compile_c("programs/late_call.c", "late_call.so", *flags)
    program = start(LD_PRELOAD=f"{late_call}:{libraries.shim}")
    peer = fake_scheduler.serve(program)
    peer.send(wire.Sleep(1))
    peer.expect(wire.Asleep)
    if not connected:
        fake_scheduler.die()
    assert program.process.stdin
    program.process.stdin.close()
    if connected:
        peer.expect(wire.Wake)
        assert program.process.poll() is None
        peer.send(wire.Awake())
    assert program.process.wait(20) == 0
    assert program.answer() == f"at its end: {late}"
