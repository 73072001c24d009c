"""Cases of a drain on the simulated GPU, each in a fresh process: drain_cases.py NAME. They fail by an assertion."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from pathlib import Path

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.lock_server import LockServer, readable
from tests.shim.programs.simulated_calls import Device, call, ends, expect_steps, hold_lock
from tests.shim.thread_state import client_waits, unread

RELAXED = 2
TRACE = Path(os.environ["NVSHARE_SIMGPU_TRACE"])
"""Has the name of each function of the driver that was entered."""
LONG = 40.0
"""More than the time after which a drain is put off, in seconds."""


def host_function_wants_a_mutex(server: LockServer) -> None:
    """A host function takes a mutex that the program holds while it submits."""
    device, mutex = Device(), threading.Lock()
    peer, stream = hold_lock(server, device), device.stream()
    with mutex:
        device.host_function(stream, lambda: mutex.acquire() and mutex.release())
        peer.revoke()
        client_waits(peer)
        for _ in range(3):
            device.spin(0, stream)
    expect_steps(peer)


def host_function_comes_while_the_drain_waits(server: LockServer) -> None:
    """It wants a mutex that the program holds, and comes when the drain knows already for what it waits."""
    device, mutex = Device(), threading.Lock()
    peer, earlier, stream = hold_lock(server, device), device.stream(), device.stream()
    device.spin(0.5, earlier)
    peer.revoke()
    client_waits(peer)
    with mutex:
        device.host_function(stream, lambda: mutex.acquire() and mutex.release())
        call("cuStreamSynchronize", earlier)
        device.spin(0, stream)
    expect_steps(peer)


def value_written_later_by_the_same_thread(server: LockServer) -> None:
    """A stream waits for a value that the thread is about to write by another stream."""
    device = Device()
    peer, waiting, writing = hold_lock(server, device), device.stream(), device.stream()
    device.wait_value(waiting)
    peer.revoke()
    client_waits(peer)
    device.write_value(writing)
    expect_steps(peer)


def value_written_later_by_another_thread(server: LockServer) -> None:
    """The same by a thread of its own, while others have more for the stream that waits."""
    device = Device()
    peer, waiting, writing = hold_lock(server, device), device.stream(), device.stream()
    device.wait_value(waiting)
    peer.revoke()
    client_waits(peer)
    others = [device.start(lambda: device.spin(0, waiting)) for _ in range(3)]
    writer = device.start(lambda: device.write_value(writing))
    expect_steps(peer)
    ends(writer)
    if any(other.is_alive() for other in others):
        peer.expect(wire.ReqLock)
        peer.grant()
    for other in others:
        ends(other)


def call_in_flight_waits_for_a_step(server: LockServer) -> None:
    """A call that is in the driver waits for a value that another thread is to write."""
    device = Device()
    peer, writing, legacy = hold_lock(server, device), device.stream(), ctypes.c_void_p()

    def copy() -> None:
        target = ctypes.c_uint32()
        call("cuMemcpyDtoH_v2", ctypes.byref(target), device.word, ctypes.c_size_t(4))
        assert target.value == 1

    device.wait_value(legacy)
    copying = device.start(copy)
    poll_until(lambda: "cuMemcpyDtoH" in TRACE.read_text(), "the copy is in the driver")
    peer.revoke()
    client_waits(peer)
    device.write_value(writing)
    expect_steps(peer)
    ends(copying)


def context_that_ends_waits_for_a_step(server: LockServer) -> None:
    """A context is ended meanwhile whose work waits for a value that another thread is to write."""
    device, other = Device(), ctypes.c_void_p()
    peer, writing = hold_lock(server, device), device.stream()
    call("cuCtxCreate_v2", ctypes.byref(other), 0, 0)
    device.wait_value(device.stream())
    device.use()
    peer.revoke()
    client_waits(peer)
    ending = device.start(lambda: call("cuCtxDestroy_v2", other))
    poll_until(lambda: "cuCtxDestroy" in TRACE.read_text(), "the end is in the driver")
    device.write_value(writing)
    expect_steps(peer)
    ends(ending)


def put_off_until_it_can_end(server: LockServer) -> None:
    """Work that no step completes: the gate opens again with the lock held, that is reported, and it is tried again."""
    device, ended = Device(), threading.Event()
    peer, stream = hold_lock(server, device), device.stream()
    device.host_function(stream, ended.wait)
    peer.revoke()
    client_waits(peer)
    stop = threading.Event()

    def submit() -> None:
        mine = device.stream()
        while not stop.is_set():
            device.spin(0, mine)
            stop.wait(0.01)

    submitting = device.start(submit)
    peer.connection.settimeout(LONG)
    assert peer.expect(wire.DrainReport) == wire.DrainReport(1, wire.Drain.STEPPING)
    assert peer.expect(wire.DrainReport) == wire.DrainReport(1, wire.Drain.PUT_OFF)
    ended.set()
    assert peer.expect(wire.LockReleased).grant == 1
    peer.expect(wire.ReqLock)
    stop.set()
    peer.grant()
    ends(submitting)


def put_off_for_a_capture(server: LockServer) -> None:
    """Work that waits for a thread which must capture a graph first: the drain is put off, and the capture begins."""
    device, captured = Device(), threading.Event()
    peer, stream, other = hold_lock(server, device), device.stream(), device.stream()
    device.host_function(stream, captured.wait)
    peer.revoke()
    client_waits(peer)
    capture(device, other)
    captured.set()
    assert peer.expect(wire.DrainReport) == wire.DrainReport(1, wire.Drain.PUT_OFF)
    assert peer.expect(wire.LockReleased).grant == 1


def ordinary_drain_takes_no_step(server: LockServer) -> None:
    """A thread that has queued long kernels and has more waits until they have completed, and nothing is added."""
    device, stop, launched = Device(), threading.Event(), []
    peer, stream = hold_lock(server, device), device.stream()

    def submit() -> None:
        while not stop.is_set():
            device.spin(0.05, stream)
            launched.append(1)

    submitting = device.start(submit)
    poll_until(lambda: len(launched) > 20, "the thread is held back by what it has queued")
    peer.revoke()
    peer.expect(wire.LockReleased)
    peer.expect(wire.ReqLock)
    stop.set()
    peer.grant()
    ends(submitting)


def asked_while_it_looks(server: LockServer) -> None:
    """DROP_LOCK is heard, and a capture begins and ends, while the device works and is watched for its idleness."""
    device, ended = Device(), threading.Event()
    peer, stream, other = hold_lock(server, device), device.stream(), device.stream()
    device.host_function(stream, ended.wait)
    peer.send(wire.Waiters(1, 20_000))
    client_waits(peer)
    capture(device, other)
    peer.revoke()
    poll_until(lambda: not unread(peer), "the client hears of it")
    client_waits(peer)
    waiting = device.start(lambda: device.spin(0, other))
    ended.set()
    while not isinstance(frame := peer.receive(), wire.LockReleased):
        assert isinstance(frame, wire.DrainReport)
    if waiting.is_alive():
        peer.expect(wire.ReqLock)
        peer.grant()
    ends(waiting)


def scheduler_is_replaced_while_it_drains(server: LockServer) -> None:
    """The next scheduler hears of the drain while it goes on, and of its end."""
    device, ended = Device(), threading.Event()
    peer, stream = hold_lock(server, device), device.stream()
    device.host_function(stream, ended.wait)
    peer.revoke()
    client_waits(peer)
    peer.connection.close()
    again = server.accept()
    assert (again.register.state, again.register.grant) == (wire.State.DRAINING, 1)
    client_waits(again)
    assert not readable(again)
    ended.set()
    assert again.expect(wire.LockReleased).grant == 1


def capture(device: Device, stream: ctypes.c_void_p) -> None:
    """Captures a kernel."""
    graph = ctypes.c_void_p()
    call("cuStreamBeginCapture_v2", stream, RELAXED)
    device.spin(0, stream)
    call("cuStreamEndCapture", stream, ctypes.byref(graph))


if __name__ == "__main__":
    globals()[sys.argv[1]](LockServer())
