"""Devices that only clients name."""

from __future__ import annotations

import pytest

from nvshare.scheduler.clients.unlisted_devices import (
    MOST,
    OF_A_PROCESS,
    OF_A_USER,
    TooManyDevicesError,
    UnlistedDevices,
)


def test_a_process_has_a_limit() -> None:
    """And then only what nobody uses any more makes room, the oldest first."""
    used = {f"GPU-{number}" for number in range(1000)}
    devices = UnlistedDevices(used.__contains__)
    for number in range(OF_A_PROCESS):
        assert devices.add(f"GPU-{number}", 7, 0) == []
    with pytest.raises(TooManyDevicesError, match="its process named 64"):
        devices.add("GPU-another", 7, 0)
    assert devices.add("GPU-of-another", 8, 0) == []
    used -= {"GPU-5", "GPU-3"}
    assert devices.add("GPU-100", 7, 0) == ["GPU-3"]
    assert devices.add("GPU-101", 7, 0) == ["GPU-5"]


def test_a_user_has_a_limit() -> None:
    """However many processes it has, others have room."""
    devices = UnlistedDevices(lambda _device: True)
    for number in range(OF_A_USER):
        devices.add(f"GPU-{number}", 0, 0)
    with pytest.raises(TooManyDevicesError, match="its user named 128"):
        devices.add("GPU-another", 1, 0)
    assert devices.add("GPU-of-another", 1, 1000) == []


def test_there_is_a_limit() -> None:
    """Whoever names them; what is not used is forgotten for what is."""
    used: set[str] = set()
    devices = UnlistedDevices(used.__contains__)
    known = set()
    for number in range(3 * MOST):
        known.add(f"GPU-{number}")
        known -= set(devices.add(f"GPU-{number}", number, number))
    assert len(known) == MOST
    used |= known
    with pytest.raises(TooManyDevicesError, match="this scheduler knows 256"):
        devices.add("GPU-another", 1, 1)
