"""XIDs and probes decide who is well, in both directions."""

from __future__ import annotations

import pytest

from nvshare.deviceplugin.devices import Gpu
from nvshare.deviceplugin.gpus.health import APPLICATION_XIDS, HealthTracker, Xid

A, B = Gpu("GPU-a", "0"), Gpu("GPU-b", "1")
M0 = Gpu("MIG-0", "2:0", parent_uuid="GPU-c", gpu_instance=1, compute_instance=0)
M1 = Gpu("MIG-1", "2:1", parent_uuid="GPU-c", gpu_instance=2, compute_instance=0)
NODE = (A, B, M0, M1)


def sick(tracker: HealthTracker) -> list[str]:
    return [gpu.uuid for gpu in NODE if tracker.problem(gpu.uuid) is not None]


@pytest.mark.parametrize("number", sorted(APPLICATION_XIDS))
def test_faults_of_programs_are_ignored(number: int) -> None:
    """A program's page fault says nothing about the GPU."""
    tracker = HealthTracker([], 60)
    assert not tracker.xid(Xid(number, "GPU-a"), NODE, 0)
    assert sick(tracker) == []


def test_more_can_be_ignored() -> None:
    """The operator's list adds to those; others stay critical."""
    tracker = HealthTracker([48], 60)
    assert not tracker.xid(Xid(48, "GPU-a"), NODE, 0)
    assert tracker.xid(Xid(79, "GPU-a"), NODE, 0)
    assert sick(tracker) == ["GPU-a"]
    assert "XID 79" in str(tracker.problem("GPU-a"))


@pytest.mark.parametrize(
    ("xid", "concerned"),
    [
        (Xid(79, "GPU-b"), ["GPU-b"]),
        (Xid(79, "GPU-c"), ["MIG-0", "MIG-1"]),
        (Xid(94, "GPU-c", 2, 0), ["MIG-1"]),
        (Xid(79, None), []),
        (Xid(79, "GPU-x"), []),
    ],
)
def test_whom_an_xid_concerns(xid: Xid, concerned: list[str]) -> None:
    """A GPU, one of its MIG devices, and nobody when NVML can't say."""
    tracker = HealthTracker([], 60)
    tracker.xid(xid, NODE, 0)
    assert sick(tracker) == concerned


def test_recovery_needs_quiet_and_a_good_probe() -> None:
    """Neither time nor a probe alone makes it well; a new XID begins the wait anew."""
    tracker = HealthTracker([], 60)
    tracker.xid(Xid(79, "GPU-a"), NODE, 100)
    tracker.probed({"GPU-a": None}, 159)
    assert sick(tracker) == ["GPU-a"]
    tracker.xid(Xid(79, "GPU-a"), NODE, 150)
    tracker.probed({"GPU-a": None}, 209)
    assert sick(tracker) == ["GPU-a"]
    tracker.probed({"GPU-a": None}, 210)
    assert sick(tracker) == []


def test_a_failed_probe_is_enough() -> None:
    """A GPU that does not answer is unwell, and well again a while after it answers."""
    tracker = HealthTracker([], 60)
    tracker.probed({"GPU-a": "NVML: GPU is lost", "GPU-b": None}, 0)
    assert tracker.problem("GPU-a") == "NVML: GPU is lost"
    assert sick(tracker) == ["GPU-a"]
    tracker.probed({"GPU-a": "NVML: GPU is lost"}, 100)
    tracker.probed({"GPU-a": None}, 159)
    assert sick(tracker) == ["GPU-a"]
    tracker.probed({"GPU-a": None}, 160)
    assert sick(tracker) == []
