"""An admin API that answers what a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import grpc

from nvshare.admin import admin_pb2, admin_pb2_grpc
from nvshare.paths import RunDir

Context = Any
_GIB = 1 << 30


@dataclass(slots=True)
class Answers:
    """What the server says; a test changes it while the server runs."""

    status: admin_pb2.Status
    refusal: tuple[grpc.StatusCode, str] | None = None
    timeline: admin_pb2.Timeline = field(default_factory=admin_pb2.Timeline)
    asked: list[Any] = field(default_factory=list)
    changed: threading.Event = field(default_factory=threading.Event)
    """Set by a test: those who watch are told the status once more."""


class _Servicer(admin_pb2_grpc.AdminServicer):
    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.ended = threading.Event()

    def GetStatus(self, request: admin_pb2.GetStatusRequest, context: Context) -> admin_pb2.Status:  # noqa: N802
        return self._answer(request, context)

    def GetTimeline(  # noqa: N802
        self, request: admin_pb2.GetTimelineRequest, context: Context
    ) -> admin_pb2.Timeline:
        self._answer(request, context)
        return self.answers.timeline

    def SetQuantum(self, request: admin_pb2.SetQuantumRequest, context: Context) -> admin_pb2.Status:  # noqa: N802
        return self._answer(request, context)

    def SetPolicy(self, request: admin_pb2.SetPolicyRequest, context: Context) -> admin_pb2.Status:  # noqa: N802
        return self._answer(request, context)

    def SetScheduling(  # noqa: N802
        self, request: admin_pb2.SetSchedulingRequest, context: Context
    ) -> admin_pb2.Status:
        return self._answer(request, context)

    def SetTerms(self, request: admin_pb2.SetTermsRequest, context: Context) -> admin_pb2.Status:  # noqa: N802
        return self._answer(request, context)

    def Sleep(self, request: admin_pb2.SleepRequest, context: Context) -> admin_pb2.Status:  # noqa: N802
        return self._answer(request, context)

    def Wake(self, request: admin_pb2.SleepRequest, context: Context) -> admin_pb2.Status:  # noqa: N802
        return self._answer(request, context)

    def WatchStatus(  # noqa: N802
        self, request: admin_pb2.WatchStatusRequest, context: Context
    ) -> Iterator[admin_pb2.Status]:
        yield self._answer(request, context)
        while self.answers.changed.wait() and not self.ended.is_set():
            self.answers.changed.clear()
            yield self._answer(request, context)

    def _answer(self, request: Any, context: Context) -> admin_pb2.Status:
        self.answers.asked.append(request)
        if self.answers.refusal is not None:
            _refuse(context, *self.answers.refusal)
        return self.answers.status


def _refuse(context: Context, code: grpc.StatusCode, details: str) -> NoReturn:
    context.abort(code, details)
    raise AssertionError("abort raises")


@contextmanager
def serving(run_dir: RunDir, answers: Answers) -> Iterator[Answers]:
    """The server, at the admin socket of ``run_dir``."""
    run_dir.admin_socket.parent.mkdir(parents=True, exist_ok=True)
    servicer = _Servicer(answers)
    server = grpc.server(ThreadPoolExecutor(4))
    admin_pb2_grpc.add_AdminServicer_to_server(servicer, server)
    server.add_insecure_port(f"unix:{run_dir.admin_socket}")
    server.start()
    try:
        yield answers
    finally:
        servicer.ended.set()
        answers.changed.set()
        server.stop(None).wait()


def example() -> admin_pb2.Status:
    """Two devices: one that is taken in turns in a cluster, one of which little is known."""
    busy = admin_pb2.Device(
        index="0",
        uuid="GPU-6ec4f6c2-ee1b-4b8a-a0e5-0d3e6d1c2b7a",
        name="NVIDIA H200",
        total_bytes=150754820096,
        foreign_bytes=536870912,
        policy="auto",
        quantum_seconds=30.0,
        quantum_left_seconds=12.25,
        clients=[
            admin_pb2.Client(
                id=1,
                pid=4194301,
                command="python3 /home/somebody/projects/speech/train.py --epochs 100 --batch-size 64 --lr 3e-4",
                state="waiting",
                footprint_bytes=99 * 1024**3,
                pinned_bytes=512 * 1024**2,
                held_seconds=3723.5,
                waited_seconds=1234.5,
                grants=17,
                backend="managed",
                protocol_version=2,
                waiting_seconds=62.25,
                position=1,
                behind=[2],
            ),
            admin_pb2.Client(
                id=2,
                pid=72,
                command="python serve.py",
                state="holding",
                footprint_bytes=123456789012,
                pinned_bytes=700 * 1024**2,
                pinned_measured=True,
                held_seconds=17.75,
                waited_seconds=0.5,
                grants=1,
                backend="native",
                protocol_version=2,
                drain="stepping",
                notices=["a context that nvshare did not see"],
                identity=admin_pb2.Identity(
                    namespace="vision", pod="detector-5d4f8c7b9-x2x7k", container="main", source="kernel"
                ),
            ),
        ],
        allocations_without_client=[
            admin_pb2.Allocation(
                identity=admin_pb2.Identity(namespace="vision", pod="own-preload", container="c", source="kubelet"),
                virtual_device_ids=["GPU-6ec4f6c2-ee1b-4b8a-a0e5-0d3e6d1c2b7a__3"],
            )
        ],
        allocations_by_others=[
            admin_pb2.Allocation(
                identity=admin_pb2.Identity(namespace="vision", pod="whole", container="c", source="kubelet"),
                virtual_device_ids=["GPU-6ec4f6c2-ee1b-4b8a-a0e5-0d3e6d1c2b7a"],
                resource="nvidia.com/gpu",
            )
        ],
    )
    quiet = admin_pb2.Device(
        uuid="GPU-00000000-0000-0000-0000-000000000001",
        name="NVIDIA H200",
        total_bytes=150754820096,
        policy="exclusive",
        quantum_seconds=2.5,
        recovering=True,
        clients=[admin_pb2.Client(id=3, state="leaving", pinned_bytes=640 * 1024**2, protocol_version=1)],
        awaited=[admin_pb2.AwaitedHolder(pid=4194303, command="python3")],
    )
    return admin_pb2.Status(version="0.2.0", scheduler_pid=977, uptime_seconds=3600.0, devices=[busy, quiet])


def swapping() -> admin_pb2.Status:
    """A device of 16 GiB in the middle of a hand-over: one client's memory leaves while another's comes in."""
    leaving = admin_pb2.Client(
        id=1,
        pid=81,
        command="python train.py",
        state="idle",
        footprint_bytes=12 * _GIB,
        pinned_bytes=_GIB // 2,
        held_seconds=30.0,
        backend="swap",
        protocol_version=2,
        swap=admin_pb2.Swap(
            resident_bytes=4 * _GIB,
            swapped_bytes=7 * _GIB,
            fixed_bytes=_GIB,
            admitted_bytes=11 * _GIB,
            host_bytes=11 * _GIB,
            usable_host_bytes=11 * _GIB,
            leaving_bytes=4 * _GIB,
        ),
    )
    coming = admin_pb2.Client(
        id=2,
        pid=82,
        command="python other.py",
        state="waiting",
        footprint_bytes=12 * _GIB,
        pinned_bytes=_GIB // 2,
        waited_seconds=30.0,
        waiting_seconds=30.0,
        position=1,
        backend="swap",
        protocol_version=2,
        swap=admin_pb2.Swap(
            resident_bytes=6 * _GIB,
            swapped_bytes=6 * _GIB,
            allotted_bytes=9 * _GIB,
            admitted_bytes=12 * _GIB,
            host_bytes=12 * _GIB,
            usable_host_bytes=10 * _GIB,
            coming_bytes=3 * _GIB,
        ),
    )
    device = admin_pb2.Device(
        index="0",
        uuid="GPU-6ec4f6c2-ee1b-4b8a-a0e5-0d3e6d1c2b7a",
        name="NVIDIA T4",
        total_bytes=16 * _GIB,
        foreign_bytes=0,
        policy="auto",
        quantum_seconds=30.0,
        reserve_bytes=_GIB // 2,
        swapping=admin_pb2.Swapping(
            in_bytes=30 * _GIB,
            out_bytes=31 * _GIB,
            in_seconds=1.5,
            out_seconds=1.25,
            in_bytes_per_second=20.5 * _GIB,
            out_bytes_per_second=24.0 * _GIB,
            stalls=4,
            stall_seconds=0.75,
            prefetched=3,
            refused_growths=1,
            spared_bytes=15 * _GIB,
        ),
        clients=[leaving, coming],
    )
    return admin_pb2.Status(
        version="0.3.0",
        scheduler_pid=977,
        uptime_seconds=60.0,
        host_memory_bytes=64 * _GIB,
        host_memory_used_bytes=23 * _GIB,
        swap_dir="/var/swap",
        swap_file_bytes=100 * _GIB,
        swap_file_used_bytes=11 * _GIB,
        devices=[device],
    )
