"""The thread that watches NVML."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nvshare.deviceplugin.devices import Gpu
from nvshare.deviceplugin.gpus.health import Xid
from nvshare.deviceplugin.gpus.nvml import NvmlError
from nvshare.deviceplugin.gpus.nvml_thread import (
    NvmlAbsent,
    NvmlAsked,
    NvmlEvent,
    NvmlThread,
    Probed,
    Scanned,
    XidEventsMissing,
    XidSeen,
)
from nvshare.nvml_state import NvmlState
from tests.deviceplugin.fake_nvml import FakeNvml
from tests.polling import poll_until

A, B = Gpu("GPU-a", "0"), Gpu("GPU-b", "1")


class Watched:
    """A running thread and all that it saw."""

    def __init__(self, nvml: FakeNvml, probe_seconds: float = 0.02, rescan_seconds: float = 60) -> None:
        self.nvml = nvml
        self.seen: list[NvmlEvent] = []
        self.thread = NvmlThread(nvml.open, self.seen.append, probe_seconds, rescan_seconds)

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
    assert watched.seen[:2] == [NvmlAsked(), Scanned((A, B))]
    watched.nvml.events.put(Xid(79, "GPU-b"))
    watched.saw(XidSeen(Xid(79, "GPU-b")))
    watched.nvml.sick["GPU-a"] = "lost"
    watched.saw(Probed({"GPU-a": "lost", "GPU-b": None}))


def test_waits_for_nvml(watched: Watched) -> None:
    """Without NVML it says so, tries again, and begins when it is there."""
    watched.nvml.absent = "Driver Not Loaded"
    watched.thread.start()
    watched.saw(NvmlAbsent("Driver Not Loaded", NvmlState.DRIVER_NOT_LOADED))
    watched.nvml.absent = None
    watched.saw(Scanned((A, B)))


def test_waits_for_gpus(watched: Watched) -> None:
    """A node without GPUs: looked at again now and then, with no busy loop."""
    watched.nvml.uuids.clear()
    watched.thread.start()
    watched.saw(Scanned(()))
    assert watched.seen == [NvmlAsked(), Scanned(())]
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


def test_a_gpu_that_is_lost_and_back_and_lost_again() -> None:
    """It is looked for with every rescan, by an NVML that was opened anew; the other one is there all the time."""
    nvml = FakeNvml("GPU-a", "GPU-b")
    watched = Watched(nvml, rescan_seconds=0.05)
    watched.thread.start()
    watched.saw(Probed({"GPU-a": None, "GPU-b": None}))
    for _ in range(2):
        # It is lost while it is probed: a scan could be the first to see it.
        nvml.hangs.clear()
        nvml.answers.clear()
        assert nvml.hangs.wait(10)
        del watched.seen[:]
        nvml.lost["GPU-b"] = "GPU is lost"
        nvml.answers.set()
        watched.saw(Probed({"GPU-a": None, "GPU-b": "lost: NVML: GPU is lost"}))
        watched.saw(Scanned((A,), {"1": "GPU is lost"}))
        watched.saw(Probed({"GPU-a": None}))
        opened = nvml.opened
        poll_until(lambda than=opened: nvml.opened > than, "NVML is opened anew")
        del nvml.lost["GPU-b"]
        watched.saw(Scanned((A, B)))
        watched.saw(Probed({"GPU-a": None, "GPU-b": None}))
    watched.thread.stop(10)
    assert not any(isinstance(event, NvmlAbsent) for event in watched.seen)


def test_an_error_of_nobody_knows_which_gpu() -> None:
    """Each GPU is probed soon, not with the next round."""
    watched = Watched(FakeNvml("GPU-a", "GPU-b"), probe_seconds=3600)
    watched.thread.start()
    watched.saw(Probed({"GPU-a": None, "GPU-b": None}))
    watched.nvml.sick["GPU-b"] = "lost"
    watched.nvml.events.put(Xid(79, None))
    watched.saw(XidSeen(Xid(79, None)))
    watched.saw(Probed({"GPU-a": None, "GPU-b": "lost"}))
    watched.thread.stop(10)


def test_an_nvml_that_never_opens_is_asked_for_first(watched: Watched) -> None:
    """Who listens knows that an answer is due before the call that may not return."""
    watched.nvml.opens.clear()
    watched.thread.start()
    watched.saw(NvmlAsked())
    watched.nvml.opens.set()
    watched.saw(Scanned((A, B)))


def test_a_driver_that_hangs_keeps_nobody(watched: Watched) -> None:
    """Stopping does not wait for a call that never returns."""
    watched.nvml.answers.clear()
    watched.thread.start()
    assert watched.nvml.hangs.wait(10)
    watched.thread.stop(0.05)
