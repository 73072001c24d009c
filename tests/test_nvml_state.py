"""What the machine says about GPUs without NVML, and when a program without NVML had better start anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvshare.nvml_state import InitErrors, NvmlState, advice, gpu_on_bus

MISSING = (NvmlState.LIBRARY_NOT_FOUND, NvmlState.DRIVER_NOT_LOADED)


def device(devices: Path, vendor: str, kind: str, driver: str | None = None) -> None:
    """A device as the kernel shows it."""
    folder = devices / "0000:01:00.0"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(vendor + "\n")
    (folder / "class").write_text(kind + "\n")
    if driver is not None:
        drivers = devices.parent / "drivers" / driver
        drivers.mkdir(parents=True)
        (folder / "driver").symlink_to(drivers)


@pytest.mark.parametrize(
    ("vendor", "kind", "driver", "expected"),
    [
        ("0x10de", "0x030000", None, True),
        ("0x10de", "0x030200", "nvidia", True),
        ("0x10de", "0x030200", "vfio-pci", False),
        ("0x10de", "0x040300", None, False),
        ("0x1af4", "0x030000", None, False),
    ],
)
def test_gpus_on_the_bus(tmp_path: Path, vendor: str, kind: str, driver: str | None, expected: bool) -> None:
    """A display or 3D controller of NVIDIA, which this machine keeps; no sound controller, and nobody else's."""
    device(tmp_path / "devices", vendor, kind, driver)
    assert gpu_on_bus(tmp_path / "devices") is expected


def test_no_bus(tmp_path: Path) -> None:
    """A machine without PCI has no GPU on it."""
    assert not gpu_on_bus(tmp_path / "none")


@pytest.mark.parametrize("state", MISSING)
@pytest.mark.parametrize(
    ("fatal", "on_bus", "ends", "shown"),
    [(None, True, True, True), (None, False, False, False), (True, False, True, True), (False, True, False, True)],
)
def test_who_ends(state: NvmlState, fatal: bool | None, on_bus: bool, ends: bool, shown: bool) -> None:
    """As chosen, else where there is a GPU; elsewhere a missing NVML is nothing wrong."""
    errors = InitErrors(fatal, 300, lambda: on_bus)
    assert errors.heard(state, 0) is (state if shown else NvmlState.NO_GPU)
    assert (errors.ends, errors.over(299), errors.over(300)) == (ends, False, ends)


@pytest.mark.parametrize("state", sorted(set(NvmlState) - set(MISSING), key=str))
def test_nothing_else_ends(state: NvmlState) -> None:
    """A new container mends nothing but a missing library or driver; whatever else is heard begins the wait anew."""
    errors = InitErrors(True, 300)
    errors.heard(MISSING[0], 0)
    assert errors.heard(state, 200) is state
    assert not errors.over(1000)


@pytest.mark.parametrize("state", [state for state in NvmlState if state.is_broken])
def test_advice(state: NvmlState) -> None:
    """Whatever is broken, there is something to do about it."""
    assert advice(state)
