"""A core whose rules are broken is found out; that whole ones keep the invariants every other test here looks at."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.actions import Allot
from nvshare.scheduler.core.device import Device
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientRegistered,
    DeviceSeen,
    LockRequested,
    ResidencyReported,
)
from nvshare.scheduler.core.invariants import CheckedCore
from nvshare.scheduler.core.settings import Settings
from tests.scheduler.core.checked import check_all, check_none

GIB = 1 << 30


def checked() -> tuple[CheckedCore, list[str]]:
    """A core, and what it finds broken."""
    found: list[str] = []
    check_none()
    core = CheckedCore(Settings(), found.append)
    check_all()
    core.handle(DeviceSeen("GPU-a", 16 * GIB), 0.0)
    return core, found


def test_who_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is ever planned for the device."""
    core, found = checked()
    core.handle(ClientRegistered(1, "GPU-a", GIB, ClaimedState.IDLE), 0.0)
    monkeypatch.setattr(Device, "reconcile", lambda *_: [])
    core.handle(LockRequested(1), 0.0)
    assert [text.split(":")[0] for text in found] == ["a client waits for ever"]


def test_memory_that_is_promised_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client has more than the device, and the plan lets it."""
    core, found = checked()
    core.handle(ClientRegistered(1, "GPU-a", 0, ClaimedState.IDLE, backend=Backend.SWAP), 0.0)
    _, device = core._clients[1]

    def allots(*_: object) -> list[object]:
        return [Allot(1, core._clients[1][0].memory.tell(32 * GIB, 0.0), 32 * GIB, 0, 0)]

    monkeypatch.setattr(device, "reconcile", allots)
    core.handle(ResidencyReported(1, 0, 0, 0), 0.0)
    assert any(text.endswith("bytes more are promised than there are: GPU-a") for text in found)
