"""What Prometheus is told about containers: by a collector, and by a scheduler with processes in pods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from nvshare import scheduler_process
from nvshare.protocol import wire
from nvshare.scheduler.api.container_metrics import ContainerCollector
from nvshare.scheduler.api.container_usage import Done, Usage
from nvshare.scheduler.core.snapshot import ClientSnapshot, Line, ShownState, SwapSnapshot
from nvshare.scheduler.core.terms import Terms
from tests.polling import poll_until
from tests.scheduler.api.pages import figures
from tests.scheduler.client_process import ClientProcess
from tests.scheduler.kubelet import Node
from tests.scheduler.wire_client import GIB, TIMEOUT_SECONDS, Scheduler

GPU = "GPU-6e767368-6172-6500-0000-000000000001"
LABELS = ("GPU-a", "space", "pod-1", "main")
SWAPS = ClientSnapshot(
    1,
    ShownState.HOLDING,
    6 * GIB,
    GIB,
    True,
    0.0,
    0.0,
    0,
    swap=SwapSnapshot(
        resident_bytes=4 * GIB,
        out_bytes=2 * GIB,
        fixed_bytes=GIB,
        allotted_bytes=5 * GIB,
        admitted_bytes=0,
        arena_bytes=0,
        usable_bytes=0,
        stored_bytes=GIB,
    ),
    container="space/pod-1/main",
    terms=Terms(weight=2.0, compute_limit=0.5, memory_limit_bytes=10 * GIB, memory_request_bytes=3 * GIB),
    kept_bytes=2 * GIB,
)
WAITS = replace(SWAPS, client=2, state=ShownState.WAITING, line=Line(2, 3, 17.0, (), False))


def shown(*containers: Usage) -> dict[str, float]:
    """The figures, by the names without prefix and the labels without the GPU."""
    registry = CollectorRegistry()
    registry.register(ContainerCollector(lambda: containers))
    lines = (line.rsplit(" ", 1) for line in generate_latest(registry).decode().splitlines() if line[0] != "#")
    return {name.removeprefix("nvshare_container_"): float(value) for name, value in lines}


def test_every_figure() -> None:
    """Two processes of one container are added up; what was set for the container is not."""
    found = shown(Usage(LABELS, Done(10.0, 4.0, 3, 7, 9, 5), (SWAPS, WAITS)))
    labels = '{container="main",gpu="GPU-a",namespace="space",pod="pod-1"'
    expected = {
        "held_seconds_total": 10.0,
        "waited_seconds_total": 4.0,
        "grants_total": 3,
        "swap_in_bytes_total": 7,
        "swap_out_bytes_total": 9,
        "sleeps_total": 5,
        "footprint_bytes": 14 * GIB,
        "resident_bytes": 8 * GIB,
        "swapped_bytes": 4 * GIB,
        "stored_bytes": 2 * GIB,
        "allotted_bytes": 10 * GIB,
        "pinned_bytes": 2 * GIB,
        "longest_wait_seconds": 17.0,
        "weight": 2.0,
        "compute_limit_ratio": 0.5,
        "memory_limit_bytes": 10 * GIB,
        "memory_request_bytes": 3 * GIB,
        "memory_kept_bytes": 2 * GIB,
    }
    states = {each.value: 0 for each in ShownState} | {"waiting": 1, "holding": 1}
    named = {f"{name}{labels}}}": value for name, value in expected.items()}
    assert found == named | {f'clients{labels},state="{state}"}}': count for state, count in states.items()}


def test_what_was_not_set_has_no_series() -> None:
    """Nor has what one container of several that count as one has; and one that has ended has only what it did."""
    plain = replace(SWAPS, terms=Terms())
    of_terms = {"weight", "compute_limit_ratio", "memory_limit_bytes", "memory_request_bytes", "memory_kept_bytes"}

    def names(labels: tuple[str, str, str, str], *clients: ClientSnapshot) -> set[str]:
        return {name.partition("{")[0] for name in shown(Usage(labels, Done(), clients))}

    assert names(LABELS, plain) & of_terms == {"weight"}
    assert names(("GPU-a", "", "", "train@1000"), SWAPS) >= of_terms
    assert not names(("GPU-a", "", "", "@1000"), SWAPS) & of_terms
    ended = names(LABELS)
    assert ended
    assert all(name.endswith("_total") for name in ended)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """On which the test's schedulers run."""
    node = Node(tmp_path)
    command = scheduler_process.command
    monkeypatch.setattr(scheduler_process, "command", lambda *arguments: node.command(command(*arguments)))
    return node


def test_processes_of_pods(serve: Callable[..., Scheduler], node: Node) -> None:
    """Each pod has what its processes do, and keeps it when one of them ends while another lives."""
    scheduler = serve("--metrics-address=127.0.0.1:0", "--policy", "exclusive", "--quantum", "60")

    def figure(name: str, pod: str, more: str = "") -> float:
        labels = f'container="c",gpu="{GPU}",namespace="n",pod="{pod}"{more}'
        return figures(scheduler).get(f"nvshare_container_{name}{{{labels}}}", -1.0)

    with ClientProcess() as first, ClientProcess() as second, ClientProcess() as other:
        for process, pod in ((first, "a"), (second, "a"), (other, "b")):
            node.put(process.process.pid, "n", pod, "c")
        ends, stays, waits = (
            process.connect(scheduler).register(footprint_bytes=GIB) for process in (first, second, other)
        )
        grant = ends.lock()
        waits.send(wire.ReqLock())
        poll_until(lambda: figure("footprint_bytes", "a") == 2 * GIB, "both processes of a pod count", TIMEOUT_SECONDS)
        poll_until(lambda: figure("held_seconds_total", "a") > 0.1, "the pod's time is counted", TIMEOUT_SECONDS)
        poll_until(lambda: figure("longest_wait_seconds", "b") > 0.1, "the other one waits", TIMEOUT_SECONDS)
        assert figure("clients", "b", ',state="waiting"') == 1
        held = figure("held_seconds_total", "a")
        ends.send(wire.LockReleased(grant))
        ends.close()
        grant = waits.expect(wire.LockOk).grant
        poll_until(lambda: figure("footprint_bytes", "a") == GIB, "one has ended", TIMEOUT_SECONDS)
        assert figure("held_seconds_total", "a") >= held
        waits.send(wire.LockReleased(grant))
        stays.lock()
        poll_until(lambda: figure("grants_total", "a") == 2, "both grants count", TIMEOUT_SECONDS)
        assert figure("longest_wait_seconds", "b") == 0
        # One that comes and goes between two scrapes.
        stays.close()
        short = second.connect(scheduler).register()

        def pods() -> list[str]:
            return [client.identity.pod for device in scheduler.status().devices for client in device.clients]

        poll_until(lambda: pods() == ["b", "a"], "it is known who it is", TIMEOUT_SECONDS)
        short.lock()
        short.close()
        poll_until(lambda: pods() == ["b"], "it is gone", TIMEOUT_SECONDS)
        assert figure("grants_total", "a") == 3
