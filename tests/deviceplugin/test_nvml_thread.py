"""The thread that watches NVML."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nvshare.deviceplugin.devices import Gpu
from nvshare.deviceplugin.health import Xid
from nvshare.deviceplugin.nvml import NvmlError
from nvshare.deviceplugin.nvml_thread import (
    NvmlAbsent,
    NvmlEvent,
    NvmlThread,
    Probed,
    Scanned,
    XidEventsMissing,
    XidSeen,
)
from tests.deviceplugin.fake_nvml import FakeNvml
from tests.polling import poll_until

A, B = Gpu("GPU-a", "0"), Gpu("GPU-b", "1")


class Watched:
    """A running thread and all that it saw."""

    def __init__(self, nvml: FakeNvml, probe_seconds: float = 0.02) -> None:
        self.nvml = nvml
        self.seen: list[NvmlEvent] = []
        self.thread = NvmlThread(nvml.open, self.seen.append, probe_seconds=probe_seconds)

    def saw(self, event: NvmlEvent) -> None:
        """Waits until it was seen."""
        poll_until(lambda: event in self.seen, str(event))


@pytest.fixture
def watched() -> Iterator[Watched]:
    started = Watched(FakeNvml("GPU-a", "GPU-b"))
    yield started
    started.nvml.answers.set()
    started.thread.stop(10)
    assert started.nvml.opened == started.nvml.closed


def test_scans_probes_and_reports(watched: Watched) -> None:
    """First the GPUs, then their health again and again, and errors as they come."""
    watched.thread.start()
    watched.saw(Probed({"GPU-a": None, "GPU-b": None}))
    assert watched.seen[0] == Scanned((A, B))
    watched.nvml.events.put(Xid(79, "GPU-b"))
    watched.saw(XidSeen(Xid(79, "GPU-b")))
    watched.nvml.sick["GPU-a"] = "lost"
    watched.saw(Probed({"GPU-a": "lost", "GPU-b": None}))


def test_waits_for_nvml(watched: Watched) -> None:
    """Without NVML it says so, tries again, and begins when it is there."""
    watched.nvml.absent = "Driver Not Loaded"
    watched.thread.start()
    watched.saw(NvmlAbsent("Driver Not Loaded"))
    watched.nvml.absent = None
    watched.saw(Scanned((A, B)))


def test_waits_for_gpus(watched: Watched) -> None:
    """A node without GPUs: looked at again now and then, with no busy loop."""
    watched.nvml.uuids.clear()
    watched.thread.start()
    watched.saw(Scanned(()))
    assert len(watched.seen) == 1
    watched.nvml.uuids.append("GPU-a")
    watched.saw(Scanned((A,)))


def test_without_events(watched: Watched) -> None:
    """Where NVML has no events, probes go on."""
    watched.nvml.events_supported = False
    watched.thread.start()
    watched.saw(XidEventsMissing("Not Supported"))
    watched.nvml.sick["GPU-a"] = "lost"
    watched.saw(Probed({"GPU-a": "lost", "GPU-b": None}))


def test_events_that_fail() -> None:
    """NVML's events end with the first GPU that is lost: which one it was is asked at once, not with the next probe."""
    watched = Watched(FakeNvml("GPU-a", "GPU-b"), probe_seconds=3600)
    watched.thread.start()
    watched.saw(Probed({"GPU-a": None, "GPU-b": None}))
    watched.nvml.sick["GPU-b"] = "NVML: GPU is lost"
    watched.nvml.events.put(NvmlError("GPU is lost"))
    watched.saw(XidEventsMissing("GPU is lost"))
    watched.saw(Probed({"GPU-a": None, "GPU-b": "NVML: GPU is lost"}))
    watched.thread.stop(10)


def test_a_driver_that_hangs_keeps_nobody(watched: Watched) -> None:
    """Stopping does not wait for a call that never returns."""
    watched.nvml.answers.clear()
    watched.thread.start()
    watched.saw(Scanned((A, B)))
    watched.thread.stop(0.05)
