"""Cases of one process at the gate, each in a fresh process: gate_cases.py NAME. They fail by an assertion."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import sys
from pathlib import Path

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.lock_server import LockServer
from tests.shim.programs.driver_calls import (
    DRIVER,
    SECOND_DEVICE_STREAM,
    STREAM,
    begin_capture,
    call,
    count,
    end_capture,
    enters,
    hold,
    launch,
    start,
    take_lock,
    use_device,
)
from tests.shim.thread_state import client_waits, sleeps

BOTH_CONTEXTS = (0, 0x1000, 0, 0x1001, 0, STREAM)
HOST = 0x10000
UPLOAD, READ_WRITE = 2, 3
"""CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD and CU_MEM_ACCESS_FLAGS_PROT_READWRITE."""
ON_DEVICE, POINTER = 1, 1
"""CU_MEM_LOCATION_TYPE_DEVICE and CU_MEMCPY_OPERAND_TYPE_POINTER."""
DEVICE_MEMORY = 2
"""CU_MEMORYTYPE_DEVICE."""

Words = ctypes.c_size_t * 16


def memory(ordinal: int) -> int:
    """Memory of a device, as the counting driver has it."""
    return 0x70000000000 + 0x10000 * ordinal


def flat_copy(to: int, source: int) -> ctypes.Array[ctypes.c_size_t]:
    """A CUDA_MEMCPY2D."""
    return Words(0, 0, DEVICE_MEMORY, 0, source, 0, 0, 0, 0, DEVICE_MEMORY, 0, to)


def batch_copy(to: int, source: int) -> ctypes.Array[ctypes.c_size_t]:
    """A CUDA_MEMCPY3D_BATCH_OP."""
    return Words(POINTER, source, 0, 0, 0, POINTER, to)


def instantiation(flags: int) -> ctypes.Array[ctypes.c_size_t]:
    """A CUDA_GRAPH_INSTANTIATE_PARAMS with an upload stream."""
    return Words(flags, STREAM)


def access(ordinal: int) -> ctypes.Array[ctypes.c_int]:
    """A CUmemAccessDesc."""
    return (ctypes.c_int * 3)(ON_DEVICE, ordinal, READ_WRITE)


def call_in_flight(server: LockServer) -> None:
    """A call that is in the driver when the lock is revoked is waited for before the device is synchronized."""
    peer = use_device(server)
    take_lock(peer)
    hold("cuLaunchKernel")
    in_flight = enters("cuLaunchKernel", lambda: launch(STREAM))
    peer.revoke()
    client_waits(peer)
    before = sleeps()
    poll_until(lambda: sleeps() > before + 5, "the drain has looked again and again")
    assert count("cuCtxSynchronize") == 0
    hold(None)
    assert in_flight.result() == 0
    peer.expect(wire.LockReleased)
    assert count("cuCtxSynchronize") == 1


def step_in_flight(server: LockServer) -> None:
    """A submission that a drain let through is waited for like any other, before anything is synchronized."""
    peer = use_device(server)
    take_lock(peer)
    DRIVER.spy_busy(ctypes.c_bool(True))
    hold("cuLaunchKernel")
    peer.revoke()
    client_waits(peer)
    stepping = enters("cuLaunchKernel", lambda: launch(STREAM))
    assert peer.expect(wire.DrainReport).drain is wire.Drain.STEPPING
    DRIVER.spy_busy(ctypes.c_bool(False))
    before = sleeps()
    poll_until(lambda: sleeps() > before + 5, "the drain has looked again")
    client_waits(peer)
    assert count("cuCtxSynchronize") == 0
    hold(None)
    assert stepping.result() == 0
    assert peer.expect(wire.LockReleased).grant == 1
    assert count("cuCtxSynchronize") == 1


def gives_way_by_itself(server: LockServer) -> None:
    """A holder for which others wait is drained when its device is idle."""
    peer = use_device(server)
    take_lock(peer)
    peer.send(wire.Waiters(1, 1000))
    peer.expect(wire.LockReleased)
    assert count("cuCtxSynchronize") > 0
    assert start(lambda: begin_capture(STREAM) or end_capture(STREAM)).result() == 0


def devices_apart(server: LockServer) -> None:
    """Each device has its own client and gate; a call meets that of its stream, or of the current context."""
    first = use_device(server, 0)
    take_lock(first)
    second = use_device(server, 1)
    assert first.register.device_uuid == b"a" * 16
    assert second.register.device_uuid == b"b" * 16
    assert start(lambda: launch(0), 0).result() == 0
    assert start(lambda: launch(STREAM), 1).result() == 0
    by_context = start(lambda: launch(0), 1)
    second.expect(wire.ReqLock)
    by_stream = start(lambda: launch(SECOND_DEVICE_STREAM), 0)
    assert start(lambda: launch(0), 0).result() == 0
    by_context.waits()
    by_stream.waits()
    second.grant()
    assert by_context.result() == by_stream.result() == 0


def peer_copy_needs_both(server: LockServer) -> None:
    """A copy between devices waits for both locks, and keeps neither device from being drained meanwhile."""
    first, second = use_device(server, 0), use_device(server, 1)
    take_lock(first)
    copy = start(lambda: call("cuMemcpyPeerAsync", *BOTH_CONTEXTS), 0)
    second.expect(wire.ReqLock)
    first.take_back()
    second.grant()
    first.expect(wire.ReqLock)
    assert count("cuMemcpyPeerAsync") == 0
    first.grant()
    assert copy.result() == 0
    assert count("cuMemcpyPeerAsync") == 1


def copies_need_the_devices_of_their_operands(server: LockServer) -> None:
    """A copy or a fill waits for the locks of all devices whose memory it touches, whatever its stream is."""
    first, second = use_device(server, 0), use_device(server, 1)
    here, there = memory(0), memory(1)
    shape, pointers, operation = flat_copy(here, there), (ctypes.c_size_t * 2)(here, there), batch_copy(there, here)
    for symbol, *arguments in (
        ("cuMemcpyAsync", here, there, 1, STREAM),
        ("cuMemcpyDtoDAsync_v2", there, here, 1, STREAM),
        ("cuMemcpyHtoDAsync_v2", there, HOST, 1, STREAM),
        ("cuMemsetD8Async", there, 0, 1, STREAM),
        ("cuMemsetD8_v2", there, 0, 1),
        ("cuMemcpy2DAsync_v2", ctypes.addressof(shape), STREAM),
        ("cuMemcpyBatchAsync_v2", ctypes.addressof(pointers), 0, 0, 2, 0, 0, 0, STREAM),
        ("cuMemPrefetchAsync", here, 1, 1, STREAM),
        ("cuMemcpy3DBatchAsync_v2", 1, ctypes.addressof(operation), 0, STREAM),
    ):
        take_lock(first)
        copy = start(functools.partial(call, symbol, *arguments), 0)
        second.expect(wire.ReqLock)
        first.take_back()
        second.grant()
        first.expect(wire.ReqLock)
        assert count(symbol) == 0, symbol
        first.grant()
        assert copy.result() == 0
        first.take_back()
        second.take_back()


def copies_at_home_need_one_device(server: LockServer) -> None:
    """A copy within a device, or from and to the host, waits for that device's lock only."""
    first = use_device(server, 0)
    take_lock(first)
    second = use_device(server, 1)
    here = memory(0)
    assert start(lambda: call("cuMemcpyDtoDAsync_v2", here, here + 1, 1, STREAM)).result() == 0
    assert start(lambda: call("cuMemcpyAsync", here, HOST, 1, STREAM)).result() == 0
    assert start(lambda: call("cuMemcpyHtoD_v2", here, HOST, 1)).result() == 0
    client_waits(second)


def upload_at_instantiation(server: LockServer) -> None:
    """A graph that is uploaded when it is instantiated waits for the lock; one that is not, does not."""
    peer = use_device(server)
    for symbol in ("cuGraphInstantiateWithParams", "cuGraphInstantiateWithParams_ptsz"):
        plain, uploading = instantiation(0), instantiation(UPLOAD)
        assert start(functools.partial(call, symbol, 0, 0, ctypes.addressof(plain))).result() == 0
        assert count(symbol) == 1
        calling = start(functools.partial(call, symbol, 0, 0, ctypes.addressof(uploading)))
        peer.expect(wire.ReqLock)
        calling.waits()
        assert count(symbol) == 1
        peer.grant()
        assert calling.result() == 0
        assert count(symbol) == 2
        peer.take_back()


def peer_access_is_said_once(server: LockServer) -> None:
    """Access of one device to another's memory is told to the scheduler of each, once."""
    first = use_device(server, 0)
    local = access(0)
    assert call("cuMemSetAccess", memory(0), 1, ctypes.addressof(local), 1) == 0
    remote = access(1)
    for _ in range(2):
        assert call("cuMemSetAccess", memory(0), 1, ctypes.addressof(remote), 1) == 0
        assert call("cuCtxEnablePeerAccess", 0x1001, 0) == 0
    told = first.expect(wire.Notice)
    assert told.text.startswith("peer access is on")
    second = use_device(server, 1)
    assert second.expect(wire.Notice) == told
    client_waits(first)


def context_made_elsewhere(server: LockServer) -> None:
    """A submission in a context that no hook has seen made finds its device by itself."""
    DRIVER.spy_retain(1)

    def submit() -> int:
        DRIVER.spy_make_current(ctypes.c_void_p(0x1001))
        return launch(0)

    calling = start(submit)
    peer = server.accept()
    assert peer.register.device_uuid == b"b" * 16
    peer.expect_wanting()
    peer.grant()
    assert calling.result() == 0


def without_a_context(server: LockServer) -> None:
    """A submission that belongs to no device goes to the driver, whose business the error is."""
    del server
    assert launch(0) == 0
    assert count("cuLaunchKernel") == 1


def errno_is_kept(server: LockServer) -> None:
    """No hook changes errno, also when it waits."""
    peer = use_device(server)

    def launch_with_errno() -> int:
        ctypes.set_errno(77)
        assert launch(STREAM) == 0
        return ctypes.get_errno()

    waited = start(launch_with_errno)
    peer.expect(wire.ReqLock)
    peer.grant()
    assert waited.result() == 77
    assert start(launch_with_errno).result() == 77


def forked_child_is_a_client_of_its_own(server: LockServer) -> None:
    """After fork the child has no lock; it registers when it uses the device. The parent's lock is not touched."""
    parent = use_device(server)
    take_lock(parent)
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        call("cuCtxSetCurrent", 0x1000)
        os._exit(launch(STREAM))
    child = server.accept()
    assert child.register.pid == pid
    child.expect_wanting()
    assert launch(STREAM) == 0
    child.grant()
    assert os.waitpid(pid, 0)[1] == 0
    assert launch(STREAM) == 0
    parent.take_back()


def forked_child_without_cuda(server: LockServer) -> None:
    """A child that does not use the device meets no scheduler, and keeps no connection of its parent open."""
    parent = use_device(server)
    pid = os.fork()
    if pid == 0:
        links = [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.exists()]
        tasks = len(list(Path("/proc/self/task").iterdir()))
        ours = {server.listener.fileno(), parent.connection.fileno()}
        sockets = sum(link.startswith(("socket:", "anon_inode:[eventfd]")) for link in links) - len(ours)
        os._exit(0 if tasks == 1 and sockets == 0 else 1)
    assert os.waitpid(pid, 0)[1] == 0


if __name__ == "__main__":
    globals()[sys.argv[1]](LockServer())
