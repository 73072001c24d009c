"""The core keeps nothing of clients that are gone."""

from __future__ import annotations

import gc
from types import FunctionType, ModuleType

from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    ContainerFound,
    DeviceForgotten,
    DeviceSeen,
    LockReleased,
    LockRequested,
    MemoryFreed,
    ResidencyReported,
)
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.terms import Terms
from tests.scheduler.core.memory.swap_transcript import GIB

_SHARED = (type, ModuleType, FunctionType)
"""What the core uses and does not own."""


def objects_of(core: Core) -> int:
    """How many objects it is made of."""
    seen = {id(core)}
    todo: list[object] = [core]
    while todo:
        for each in gc.get_referents(todo.pop()):
            if not isinstance(each, _SHARED) and id(each) not in seen:
                seen.add(id(each))
                todo.append(each)
    return len(seen)


def come_and_go(core: Core, clients: range) -> None:
    """Two each, with memory: on the device that all share, and on their own. Every other one dies holding."""
    for number in clients:
        now = float(number)
        own = f"GPU-{number}"
        core.handle(DeviceSeen(own, 16 * GIB), now)
        for client, device in ((2 * number, "GPU-shared"), (2 * number + 1, own)):
            backend = Backend.SWAP if number % 3 else Backend.MANAGED
            core.handle(ClientRegistered(client, device, GIB, ClaimedState.IDLE, backend=backend), now)
            core.handle(ContainerFound(client, f"container {number}", Terms()), now)
            if backend is Backend.SWAP:
                core.handle(ResidencyReported(client, 0, GIB, GIB, 0, GIB, GIB, GIB), now)
            actions = core.handle(LockRequested(client), now)
            if number % 2:
                grant = next(each.grant for each in actions if hasattr(each, "grant"))
                core.handle(LockReleased(client, grant), now)
            core.handle(ClientGone(client), now)
            core.handle(MemoryFreed(client), now)
        core.handle(DeviceForgotten(own), now)


def test_nothing_stays() -> None:
    """After a hundred it is as large as after fifty."""
    core = Core(Settings())
    core.handle(DeviceSeen("GPU-shared", 16 * GIB), 0.0)
    come_and_go(core, range(1, 50))
    before = objects_of(core)
    come_and_go(core, range(50, 100))
    assert objects_of(core) == before
