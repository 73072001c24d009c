"""When kubelet is asked, and what is logged of its answers: on a clock of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import structlog

from nvshare.scheduler.allocation_watch import AllocationWatch
from nvshare.scheduler.clients.strangers import Strangers
from nvshare.scheduler.gpus.names import NamedDevice, gpu_name
from nvshare.scheduler.pods.allocations import Listed, listed
from nvshare.scheduler.pods.pod_resources import KubeletError

A = "GPU-6e767368-6172-6500-0000-000000000001"
B = "GPU-6e767368-6172-6500-0000-000000000002"


class Situation:
    """A watch whose kubelet answers when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asks: Callable[[], None] | None = None
        self.asks_at = 0.0
        self.answered: list[Callable[[Any], None]] = []
        self.strangers = Strangers()
        loop, worker = Mock(), Mock()
        loop.time = lambda: self.now
        loop.call_at = self._call_at
        loop.call_later = lambda seconds, call: self._call_at(self.now + seconds, call)
        worker.submit = lambda _work, done: self.answered.append(done)
        device = Mock(side_effect=lambda uuid: NamedDevice(gpu_name(uuid), 0, listed=True))
        self.dispatcher = Mock(clients={})
        claims = Mock(find=lambda _name: None)
        self.watch = AllocationWatch(
            loop,
            worker,
            self.dispatcher,
            device,
            Path("/nowhere"),
            self.strangers,
            Mock(),
            claims,
            structlog.get_logger(),
        )

    def _call_at(self, moment: float, call: Callable[[], None]) -> Mock:
        self.asks, self.asks_at = call, moment
        return Mock()

    def question(self) -> None:
        """The time of the next one comes."""
        assert self.asks is not None
        self.now = max(self.now, self.asks_at)
        self.asks()

    def answer(self, *containers: Listed, error: str = "") -> None:
        """Kubelet answers, or does not."""
        self.answered.pop()(KubeletError(error) if error else containers)

    def wanted(self) -> None:
        """A client came of which nothing is known."""
        assert self.strangers.ask_soon is not None
        self.strangers.ask_soon()


def test_every_three_seconds() -> None:
    """Counted from the answer, whether there was one or not."""
    situation = Situation()
    assert situation.asks_at == 100.0
    situation.question()
    situation.now = 101.0
    situation.answer()
    assert situation.asks_at == 104.0
    situation.question()
    situation.answer(error="not now")
    assert situation.asks_at == 107.0


def test_sooner_for_new_clients() -> None:
    """But not sooner than half a second after the last answer; while one is outstanding, that long after it."""
    situation = Situation()
    situation.question()
    situation.answer()
    situation.wanted()
    assert situation.asks_at == 100.5
    situation.question()
    situation.wanted()
    assert len(situation.answered) == 1
    situation.now = 102.0
    situation.answer()
    assert situation.asks_at == 102.5
    situation.question()
    situation.answer()
    assert situation.asks_at == 105.5


def theirs(pod: str, *gpus: str) -> Listed:
    """A container with GPUs of NVIDIA's plugin."""
    return listed("n", pod, "c", {"nvidia.com/gpu": gpus}, [])


def test_a_gpu_that_two_plugins_gave_out() -> None:
    """One warning for each pod and GPU; again only if that ended meanwhile. Nobody's GPU is made known for it."""
    situation = Situation()
    ours = listed("n", "ours", "c", {"nvshare.com/gpu": [f"{A}__1"]}, [])
    with structlog.testing.capture_logs() as lines:
        for containers in ([theirs("p", A)], [ours, theirs("p", A, B)], [ours, theirs("p", A), theirs("q", A)], [ours]):
            situation.question()
            situation.answer(*containers)
        assert [(line["log_level"], line["pod"], line["device"]) for line in lines] == [
            ("warning", "p", A),
            ("warning", "q", A),
        ]
        assert lines[0]["resource"] == "nvidia.com/gpu"
        situation.question()
        situation.answer(ours, theirs("p", A))
    assert len(lines) == 3
    assert [holding.pod for holding in situation.watch.given_twice()[A]] == ["p"]
    assert {call.args[0] for call in situation.dispatcher.make_known.call_args_list} == {A}
