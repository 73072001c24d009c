"""What is offered, from all that is known about GPUs and node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare.admin import admin_pb2
from nvshare.deviceplugin import monitor as module
from nvshare.deviceplugin.devices import Gpu, Offer
from nvshare.deviceplugin.gpus.device_nodes import Nodes
from nvshare.deviceplugin.gpus.discovery import Selection
from nvshare.deviceplugin.gpus.health import Xid
from nvshare.deviceplugin.gpus.nvml_thread import (
    NvmlAbsent,
    NvmlAsked,
    NvmlEvent,
    Probed,
    Scanned,
    XidEventsMissing,
    XidSeen,
)
from nvshare.deviceplugin.host.problems import HostProblems
from nvshare.deviceplugin.kubelet.servicer import listing
from nvshare.deviceplugin.settings.configuration import Configuration
from nvshare.deviceplugin.settled import SETTLED_SECONDS
from nvshare.nvml_state import SILENCE_SECONDS, InitErrors, NvmlState
from tests.deviceplugin.fake_nvml import FakeNvml
from tests.deviceplugin.monitor_bench import Bench, Clock

A, B = Gpu("GPU-a", "0"), Gpu("GPU-b", "1")
WELL = Probed({"GPU-a": None, "GPU-b": None})


def number(gpu: Gpu) -> Nodes:
    """Of the node that a GPU has; of one without it is said."""
    if gpu.minor is None:
        return Nodes(problem="no such node")
    return Nodes((Path(f"/dev/nvidia{gpu.minor}"),))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def bench(clock: Clock) -> Bench:
    started = Bench(clock)
    started.monitor.handle(Scanned((A, B)))
    started.monitor.handle(WELL)
    return started


def test_offers_all_gpus(bench: Bench) -> None:
    """Ten virtual devices each, all well."""
    assert bench.offers == (Offer("GPU-a", 10), Offer("GPU-b", 10))
    assert bench.monitor.problems() == []


def test_nothing_was_looked_at_yet(clock: Clock) -> None:
    """Before NVML has answered nobody knows what this node lacks; its absence is an answer, and to be asked is none."""
    bench = Bench(clock)
    bench.monitor.check_host()
    bench.monitor.handle(NvmlAsked())
    assert not bench.monitor.has_looked
    assert bench.monitor.problems() == ["NVML has not answered yet"]
    bench.monitor.handle(NvmlAbsent("libnvidia-ml.so.1: no such file"))
    assert bench.monitor.problems() == []


def test_counts_per_gpu(clock: Clock) -> None:
    """One GPU can have another number."""
    configuration = Configuration(virtual_devices=4, virtual_devices_per_gpu={"GPU-b": 1})
    bench = Bench(clock, configuration)
    bench.monitor.handle(Scanned((A, B)))
    assert bench.offers == (Offer("GPU-a", 4), Offer("GPU-b", 1))


def test_device_nodes(clock: Clock) -> None:
    """Each GPU's are in what is offered of it; one whose nodes are not there is unhealthy, with the reason."""
    bench = Bench(clock, find_nodes=number)
    bench.monitor.handle(Scanned((Gpu("GPU-a", "0", minor=7), B)))
    assert bench.offers == (
        Offer("GPU-a", 10, nodes=(Path("/dev/nvidia7"),)),
        Offer("GPU-b", 10, "no such node"),
    )
    assert bench.monitor.notes() == ["GPU-b: no such node"]


def test_xid_and_recovery(bench: Bench) -> None:
    """All virtual devices of the GPU are unhealthy, with the reason wherever one looks, and well again later."""
    bench.monitor.handle(XidSeen(Xid(79, "GPU-a")))
    assert bench.problems == ["XID 79 (GPU has fallen off the bus)", None]
    assert bench.lines("XID 79") == 1
    assert bench.metric("gpu_healthy", gpu="GPU-a") == 0
    assert bench.metric("problem", kind="gpu") == 1
    assert bench.metric("xid_events_total", xid="79") == 1
    assert bench.monitor.notes() == ["GPU-a: XID 79 (GPU has fallen off the bus)"]
    assert bench.monitor.problems() == []
    bench.clock.now += 60
    bench.monitor.handle(WELL)
    assert bench.problems == [None, None]
    assert bench.lines("healthy again") == 1
    assert bench.metric("gpu_healthy", gpu="GPU-a") == 1
    assert bench.metric("problem", kind="gpu") == 0


def test_memory_that_is_promised(bench: Bench) -> None:
    """What there is no memory for is withheld, which the log and a metric say; nothing is wrong with the GPU then."""
    client = admin_pb2.Client(footprint_bytes=1 << 30, swap=admin_pb2.Swap())
    device = admin_pb2.Device(uuid="GPU-a", total_bytes=1 << 30, clients=[client])
    device.allocations.add(virtual_device_ids=["GPU-a__1"])
    bench.status = admin_pb2.Status(devices=[device], knows_allocations=True)
    for _ in range(2):
        bench.monitor.check_host()
        assert bench.offers[1].withheld == frozenset()
        bench.clock.now += SETTLED_SECONDS
    assert [len(offer.withheld) for offer in bench.offers] == [9, 0]
    assert (bench.metric("withheld_devices", gpu="GPU-a"), bench.metric("gpu_healthy", gpu="GPU-a")) == (9, 1)
    assert bench.metric("problem", kind="gpu") == 0
    assert bench.lines("'offered': 1, 'of': 10, 'memory': '1.0 GiB are promised, of 1.0 GiB, nothing is swapped'") == 1
    sick, well = (listing(bench.inventory.snapshot.of("nvshare.com/gpu")).devices[number] for number in (1, 0))
    assert (sick.ID, sick.health, well.health) == ("GPU-a__2", "Unhealthy", "Healthy")
    bench.status = None
    for _ in range(2):
        bench.monitor.check_host()
        bench.clock.now += SETTLED_SECONDS
    assert [offer.withheld for offer in bench.offers] == [frozenset(), frozenset()]
    assert bench.lines("'offered': 10, 'of': 10, 'memory': 'not known'") == 1


def test_application_faults_are_only_logged(bench: Bench) -> None:
    """A program's own fault is counted and leaves the GPU healthy."""
    bench.monitor.handle(XidSeen(Xid(31, "GPU-a")))
    assert bench.problems == [None, None]
    assert bench.metric("xid_events_total", xid="31") == 1


def test_library_missing(bench: Bench) -> None:
    """Without the library a container would run unshared: unhealthy at once, one line, and back when it is there."""
    bench.host = HostProblems(library="library /x is missing on the host")
    for _ in range(3):
        bench.monitor.check_host()
    assert bench.problems == ["library /x is missing on the host"] * 2
    assert bench.lines("missing on the host") == 2
    assert bench.metric("problem", kind="library") == 1
    assert bench.monitor.problems() == ["library /x is missing on the host"]
    bench.host = HostProblems()
    bench.monitor.check_host()
    assert bench.problems == [None, None]
    assert bench.metric("problem", kind="library") == 0


def test_scheduler_missing(bench: Bench) -> None:
    """Its restart takes nothing away, and leaves the plugin ready: a rollout ends at once what is not. A longer absence
    does. It is said at once in both cases."""
    bench.host = HostProblems(scheduler="no scheduler socket /x")
    bench.monitor.check_host()
    assert bench.problems == [None, None]
    assert (bench.monitor.problems(), bench.monitor.notes()) == ([], ["no scheduler socket /x"])
    assert bench.metric("problem", kind="scheduler") == 1
    assert bench.lines("no scheduler socket") == 1
    bench.clock.now += 30
    bench.monitor.check_host()
    assert bench.problems == ["no scheduler socket /x"] * 2
    assert (bench.monitor.problems(), bench.monitor.notes()) == (["no scheduler socket /x"], [])
    bench.host = HostProblems()
    bench.monitor.check_host()
    assert (bench.problems, bench.monitor.problems(), bench.monitor.notes()) == ([None, None], [], [])


def test_a_gpu_that_vanishes_stays_offered(bench: Bench) -> None:
    """Its pods still hold its virtual devices: unhealthy with a reason, and healthy when it is back."""
    bench.monitor.handle(Scanned((A,)))
    assert bench.problems == [None, "NVML does not show it any more"]
    bench.monitor.handle(NvmlAbsent("Driver Not Loaded"))
    assert bench.problems == ["NVML is not available: Driver Not Loaded"] * 2
    bench.monitor.handle(Scanned((A, B)))
    bench.monitor.handle(WELL)
    assert bench.problems == [None, None]


def test_new_gpus_come_last(bench: Bench) -> None:
    """The order of the GPUs known so far stays, and with it the order of ties."""
    bench.monitor.handle(Scanned((Gpu("GPU-0", "0"), Gpu("GPU-a", "1"), Gpu("GPU-b", "2"))))
    assert [offer.uuid for offer in bench.offers] == ["GPU-a", "GPU-b", "GPU-0"]


def test_a_driver_that_hangs(bench: Bench) -> None:
    """Silence of the NVML thread is an illness of all GPUs, until it is heard again."""
    bench.clock.now += SILENCE_SECONDS + 1
    bench.monitor.check_host()
    assert bench.problems == ["the driver does not answer NVML"] * 2
    bench.monitor.handle(WELL)
    assert bench.problems == [None, None]


NO_LIBRARY = NvmlAbsent("NVML Shared Library Not Found", NvmlState.LIBRARY_NOT_FOUND)
NO_DRIVER = NvmlAbsent("Driver Not Loaded", NvmlState.DRIVER_NOT_LOADED)


def test_one_of_four_gpus_comes_and_goes(clock: Clock) -> None:
    """The virtual devices of the other three never leave and stay healthy; its own are unhealthy, and why is said."""
    nvml = FakeNvml("GPU-a", "GPU-b", "GPU-c", "GPU-d")
    bench = Bench(clock)
    bench.monitor.handle(Scanned(*nvml.open().scan()))
    for turn in (1, 2):
        nvml.lost = {"GPU-c": "GPU is lost"}
        bench.monitor.handle(Scanned(*nvml.open().scan()))
        assert bench.problems == [None, None, "lost: NVML: GPU is lost", None]
        assert bench.lines("GPU 2 (GPU-c) is lost, NVML says: GPU is lost; others go on: run nvidia-smi") == turn
        assert bench.monitor.notes() == ["GPU-c: lost: NVML: GPU is lost"]
        assert (bench.nvml, bench.metric("problem", kind="gpu"), bench.metric("problem", kind="nvml")) == (["ok"], 1, 0)
        nvml.lost = {}
        bench.monitor.handle(Scanned(*nvml.open().scan()))
        assert bench.offers == tuple(Offer(uuid, 10) for uuid in nvml.uuids)
        assert bench.lines("NVML gives GPU 2 (GPU-c) again") == bench.lines("healthy again") == turn
    assert bench.lines("GPU found") == 4


def test_a_gpu_that_was_lost_before_the_start(clock: Clock) -> None:
    """The others are offered; nobody knows its UUID, so it is named by its number until it comes."""
    bench = Bench(clock)
    bench.monitor.handle(Scanned((B,), {"0": "GPU is lost"}))
    assert bench.offers == (Offer("GPU-b", 10),)
    assert bench.monitor.notes() == ["GPU 0: lost: NVML: GPU is lost"]
    assert bench.metric("problem", kind="gpu") == 1
    bench.monitor.handle(Scanned((A, B)))
    assert bench.offers == (Offer("GPU-b", 10), Offer("GPU-a", 10))
    assert bench.metric("problem", kind="gpu") == 0


def test_mig_devices_are_lost_with_their_gpu(clock: Clock) -> None:
    """Or each by itself."""
    migs = tuple(Gpu(f"MIG-{place}", f"0:{place}", "GPU-a", place, 0) for place in range(2))
    bench = Bench(clock)
    bench.monitor.handle(Scanned(migs))
    bench.monitor.handle(Scanned(migs[:1], {"0:1": "Unknown Error"}))
    assert bench.problems == [None, "lost: NVML: Unknown Error"]
    bench.monitor.handle(Scanned((), {"0": "GPU is lost"}))
    assert bench.problems == ["lost: NVML: GPU is lost"] * 2


def test_an_xid_of_nobody_knows_which_gpu(bench: Bench) -> None:
    """It makes no GPU unhealthy; it is logged and counted."""
    bench.monitor.handle(XidSeen(Xid(79, None)))
    assert bench.problems == [None, None]
    assert bench.lines("XID error of a GPU that NVML does not name") == 1
    assert bench.metric("xid_events_total", xid="79") == 1


def test_nvml_that_hangs_from_the_start(clock: Clock) -> None:
    """Its silence is said with what to do, shown, and over when it answers; a node without NVML is never silent."""
    bench = Bench(clock)
    bench.monitor.handle(NvmlAsked())
    bench.monitor.check_host()
    assert (bench.nvml, bench.log.calls) == (["unknown"], [])
    bench.clock.now += SILENCE_SECONDS + 1
    for _ in range(3):
        bench.monitor.check_host()
    assert (bench.nvml, bench.metric("problem", kind="nvml")) == (["silent"], 1)
    assert bench.lines("the driver does not answer NVML: run nvidia-smi on the node") == len(bench.log.calls) == 1
    assert bench.monitor.notes()[0].startswith("the driver does not answer NVML")
    bench.monitor.handle(NO_LIBRARY)
    bench.clock.now += SILENCE_SECONDS + 1
    bench.monitor.check_host()
    assert (bench.nvml, bench.metric("problem", kind="nvml"), bench.monitor.notes()) == (["no_gpu"], 0, [])


@pytest.mark.parametrize(
    ("event", "on_bus", "state", "words"),
    [
        (Scanned(()), True, "no_gpu", "no GPU to offer on this node (NVML shows none)"),
        (NO_LIBRARY, False, "no_gpu", "no GPU to offer on this node (NVML is not available: NVML Shared Library"),
        (NO_LIBRARY, True, "library_not_found", "libnvidia-ml.so.1 is not here: install NVIDIA's driver"),
        (NO_DRIVER, True, "driver_not_loaded", "load the driver there"),
        (NvmlAbsent("mismatch", NvmlState.VERSION_MISMATCH), False, "version_mismatch", "different versions"),
        (NvmlAbsent("Unknown Error"), False, "error", "look for NVRM in its kernel log"),
    ],
)
def test_no_gpu_here_or_nvml_broken(clock: Clock, event: NvmlEvent, on_bus: bool, state: str, words: str) -> None:
    """Log and metrics tell them apart, and say what to do about each."""
    bench = Bench(clock, init_errors=InitErrors(None, on_bus=lambda: on_bus))
    bench.monitor.handle(event)
    assert (bench.nvml, bench.lines(words)) == ([state], 1)
    assert bench.metric("problem", kind="nvml") == (state != "no_gpu") == len(bench.monitor.notes())


def test_gives_up_without_nvml(clock: Clock) -> None:
    """After the time that was chosen, and not a moment before; who has NVML again in between waits anew."""
    bench = Bench(clock, init_errors=InitErrors(None, 300, lambda: True))
    for event in (NO_LIBRARY, Scanned(()), NO_DRIVER):
        bench.monitor.handle(event)
        assert bench.monitor.gave_up() is None
        bench.clock.now += 299
        bench.monitor.handle(event)
        assert bench.monitor.gave_up() is None
    bench.clock.now += 1
    assert bench.lines("after 300 s this program ends, and its container is made anew") == 2
    assert "Driver Not Loaded for 300 s: this program ends" in str(bench.monitor.gave_up())


def test_never_gives_up_what_was_offered(bench: Bench, clock: Clock) -> None:
    """Neither after the driver went, nor where the environment names the GPUs."""
    named = Bench(clock, selection=Selection(visible="GPU-a"), init_errors=InitErrors(True))
    known = Bench(clock, init_errors=InitErrors(True))
    known.monitor.handle(Scanned((A, B)))
    for each in (named, known):
        each.monitor.handle(NO_DRIVER)
        each.clock.now += 3600
        assert each.monitor.gave_up() is None


@pytest.mark.parametrize("absence", [NO_LIBRARY, Scanned(())])
def test_node_without_gpus(clock: Clock, absence: NvmlAbsent | Scanned) -> None:
    """Nothing is offered, nothing is wrong, and there is one line about it however often it is looked at."""
    bench = Bench(clock)
    for _ in range(5):
        bench.clock.now += 60
        bench.monitor.handle(absence)
        bench.monitor.check_host()
    assert bench.offers == ()
    assert bench.monitor.problems() == []
    assert len(bench.log.calls) == bench.lines("no GPU to offer") == 1


def test_named_gpus_without_nvml(clock: Clock) -> None:
    """UUIDs from the environment are offered where there never was an NVML, for good once there was one."""
    bench = Bench(clock, selection=Selection(visible="GPU-a"))
    bench.monitor.handle(NvmlAbsent("NVML Shared Library Not Found"))
    assert bench.offers == (Offer("GPU-a", 10),)
    bench.clock.now += 3600
    bench.monitor.check_host()
    assert bench.problems == [None]
    bench.monitor.handle(Scanned((A,)))
    bench.monitor.handle(NvmlAbsent("Driver Not Loaded"))
    assert bench.problems == ["NVML is not available: Driver Not Loaded"]


def test_said_once(bench: Bench, clock: Clock) -> None:
    """What does not change is not said again."""
    unknown = Bench(clock, selection=Selection(include=("GPU-x", "GPU-a")))
    for _ in range(3):
        unknown.monitor.handle(Scanned((A, B)))
        unknown.monitor.handle(XidEventsMissing("Not Supported"))
    assert unknown.lines("GPU-x") == 1
    assert unknown.lines("no error events") == 1
    assert [offer.uuid for offer in unknown.offers] == ["GPU-a"]


def test_listeners_hear_only_changes(bench: Bench) -> None:
    """Probes and looks that find nothing new publish nothing."""
    before = bench.inventory.snapshot
    actions: list[Callable[[], None]] = [bench.monitor.check_host, lambda: bench.monitor.handle(WELL)]
    for action in actions * 3:
        action()
    assert bench.inventory.snapshot is before


def test_where_gpus_are(clock: Clock) -> None:
    """Each GPU's memory is looked for when it is found; kubelet is told with the offer."""
    bench = Bench(clock, find_numa_node=lambda gpu: int(gpu.index) + 1)
    bench.monitor.handle(Scanned((A, B)))
    assert [offer.numa_node for offer in bench.offers] == [1, 2]
