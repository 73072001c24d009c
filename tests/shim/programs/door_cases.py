"""Cases of the door of one process, each in a fresh process: door_cases.py NAME. They fail by an assertion."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.lock_server import TIMEOUT, LockServer, Peer
from tests.shim.programs.driver_calls import (
    DRIVER,
    STREAM,
    Calling,
    begin_capture,
    call,
    count,
    end_capture,
    ends_at_once,
    enters,
    hold,
    launch,
    start,
    take_lock,
    use_device,
)
from tests.shim.thread_state import client_waits

LOST = 304
"""CUDA_ERROR_OPERATING_SYSTEM."""
IN_DRIVER = wire.NotAsleep(1, "a thread is in the driver")
ZEROS = ctypes.create_string_buffer(4096)
DEVICE_MEMORY, HOST_MEMORY = 1, 3
"""CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_HOST_NUMA."""


def put_to_sleep(peer: Peer, request: int = 1) -> None:
    """The door is closed."""
    peer.send(wire.Sleep(request))
    assert peer.expect(wire.Asleep) == wire.Asleep(request)


def refused(peer: Peer) -> wire.NotAsleep:
    """Why it is not."""
    peer.send(wire.Sleep(1))
    return peer.expect(wire.NotAsleep)


def ask() -> int:
    """A call that submits nothing and asks nobody but the driver."""
    return call("cuCtxGetFlags", ctypes.addressof(ZEROS))


def knock(peer: Peer) -> Calling:
    """A call that waits at the door, of which the scheduler has heard."""
    calling = start(ask)
    peer.expect(wire.Wake)
    calling.waits()
    return calling


def sleeps_and_wakes(server: LockServer) -> None:
    """A call at the closed door waits and asks for it to be opened, several ask once; each closing is a new one."""
    peer = use_device(server)
    for request in (1, 2):
        put_to_sleep(peer, request)
        before = count("cuCtxGetFlags")
        first, second = knock(peer), start(ask)
        second.waits()
        client_waits(peer)
        assert count("cuCtxGetFlags") == before
        peer.send(wire.Awake())
        assert first.result() == second.result() == 0
        assert count("cuCtxGetFlags") == before + 2


def asked_again_while_asleep(server: LockServer) -> None:
    """A door that is closed is closed for whoever asks, and AWAKE at an open one changes nothing."""
    peer = use_device(server)
    put_to_sleep(peer, 1)
    put_to_sleep(peer, 2)
    for _ in range(2):
        peer.send(wire.Awake())
    client_waits(peer)
    assert start(ask).result() == 0
    put_to_sleep(peer, 3)


def in_the_driver(server: LockServer) -> None:
    """Who is in the driver keeps the door open, in whatever function, and only for as long."""
    peer = use_device(server)
    for symbol, function in (
        ("cuStreamSynchronize", lambda: call("cuStreamSynchronize", STREAM)),
        ("cuMemHostAlloc", lambda: call("cuMemHostAlloc", ctypes.addressof(ZEROS), 1, 0)),
        ("cuMemFree_v2", lambda: call("cuMemFree_v2", 0)),
    ):
        hold(symbol)
        calling = enters(symbol, function)
        assert refused(peer) == IN_DRIVER, symbol
        hold(None)
        calling.result()
        put_to_sleep(peer)
        peer.send(wire.Awake())
        client_waits(peer)


def without_a_device_of_its_own(server: LockServer) -> None:
    """A submission that belongs to no device is in the driver all the same."""
    peer = use_device(server, 0)
    use_device(server, 1)
    hold("cuLaunchKernel")
    calling = enters("cuLaunchKernel", lambda: call("cuCtxSetCurrent", 0) or launch(0))
    assert refused(peer) == IN_DRIVER
    hold(None)
    assert calling.result() == 0


def captures_behind_a_closed_gate(server: LockServer) -> None:
    """What is captured passes a closed gate, and is in the driver."""
    peer = use_device(server)
    hold("cuLaunchKernel")
    capturing = enters("cuLaunchKernel", lambda: begin_capture(STREAM) or launch(STREAM) or end_capture(STREAM))
    assert refused(peer) == IN_DRIVER
    hold(None)
    assert capturing.result() == 0


def asks_before_it_comes_to_a_gate(server: LockServer) -> None:
    """Who asks the driver which gates a copy has to pass is in the driver."""
    peer = use_device(server, 0)
    use_device(server, 1)
    hold("cuPointerGetAttributes")
    copying = enters("cuPointerGetAttributes", lambda: call("cuMemcpyDtoD_v2", 0x70000000000, 0x70000010000, 1))
    assert refused(peer) == IN_DRIVER
    hold(None)
    copying.waits()


def looks_behind_its_launches(server: LockServer) -> None:
    """Who looks how far the device is after a launch is in the driver, also when the lock has been given back."""
    peer = use_device(server)
    take_lock(peer)
    hold("cuEventRecord")
    launching = enters("cuEventRecord", lambda: sum(launch(STREAM) for _ in range(300)))
    peer.take_back()
    assert refused(peer) == IN_DRIVER
    hold(None)
    peer.expect(wire.ReqLock)
    peer.grant()
    assert launching.result() == 0


def wants_its_turn(server: LockServer) -> None:
    """Who waits for the lock is outside, and wants to be awake; it asks again then, whoever closed the door."""
    peer, other = use_device(server, 0), use_device(server, 1)
    waiting = start(lambda: launch(STREAM))
    peer.expect(wire.ReqLock)
    waiting.waits()
    for closing in (peer, other):
        before = count("cuLaunchKernel")
        put_to_sleep(closing)
        closing.expect(wire.Wake)
        waiting.waits()
        closing.send(wire.Awake())
        peer.expect(wire.ReqLock)
        waiting.waits()
        assert count("cuLaunchKernel") == before
    peer.grant()
    assert waiting.result() == 0


def waits_with_several_devices(server: LockServer) -> None:
    """Who waits for the turn of a copy is outside as well, though it asked the driver what it is for."""
    peer = use_device(server, 0)
    use_device(server, 1)
    copying = start(lambda: call("cuMemcpyDtoD_v2", 0x70000000000, 0x70000010000, 1))
    peer.expect(wire.ReqLock)
    copying.waits()
    put_to_sleep(peer)
    peer.expect(wire.Wake)
    peer.send(wire.Awake())
    peer.expect(wire.ReqLock)


def waits_for_another_scheduler(server: LockServer) -> None:
    """Who waits for its turn and sleeps says both to the next scheduler, and asks again when it is awake."""
    peer = use_device(server)
    waiting = start(lambda: launch(STREAM))
    peer.expect(wire.ReqLock)
    waiting.waits()
    put_to_sleep(peer)
    peer.connection.close()
    peer = server.accept()
    assert peer.register.state is wire.State.WAITING
    assert peer.expect(wire.Asleep) == wire.Asleep(0)
    peer.expect(wire.Wake)
    peer.send(wire.Awake())
    peer.expect(wire.ReqLock)
    peer.grant()
    assert waiting.result() == 0


def has_the_lock(server: LockServer) -> None:
    """Who has the lock, or gives it back, is not idle."""
    peer, other = use_device(server, 0), use_device(server, 1)
    take_lock(peer)
    assert refused(peer).text == refused(other).text == "it has the lock of a GPU"
    hold("cuCtxSynchronize")
    peer.revoke()
    poll_until(lambda: count("cuCtxSynchronize"), "the worker synchronizes")
    assert refused(other) == IN_DRIVER
    hold(None)
    peer.expect(wire.LockReleased)
    put_to_sleep(other)


def one_door_for_all_devices(server: LockServer) -> None:
    """The door is closed through one client and opened through another, and each asks for that."""
    first, second = use_device(server, 0), use_device(server, 1)
    put_to_sleep(first)
    calling = start(ask)
    first.expect(wire.Wake)
    second.expect(wire.Wake)
    second.send(wire.Awake())
    assert calling.result() == 0


def launch_after_sleep(server: LockServer) -> None:
    """A submission comes to the door first, and to the gate then."""
    peer = use_device(server)
    take_lock(peer)
    peer.take_back()
    put_to_sleep(peer)
    calling = start(lambda: launch(STREAM))
    peer.expect(wire.Wake)
    calling.waits()
    client_waits(peer)
    peer.send(wire.Awake())
    peer.expect(wire.ReqLock)
    peer.grant()
    assert calling.result() == 0


def lock_that_comes_asleep(server: LockServer) -> None:
    """A lock that is given meanwhile is had and given back without the driver; the gate opens with the door."""
    peer = use_device(server)
    put_to_sleep(peer)
    DRIVER.spy_sleep(ctypes.c_bool(True))
    peer.grant()
    peer.take_back()
    peer.grant()
    client_waits(peer)
    DRIVER.spy_sleep(ctypes.c_bool(False))
    assert DRIVER.spy_disturbances() == 0
    peer.send(wire.Awake())
    client_waits(peer)
    assert start(lambda: launch(STREAM)).result() == 0
    peer.take_back()


def lost(server: LockServer) -> None:
    """What the driver has lost gets 304 from every call, from one that waits for the lock too, and never sleeps."""
    peer = use_device(server)
    waiting = start(lambda: launch(STREAM))
    peer.expect(wire.ReqLock)
    put_to_sleep(peer)
    before = count("cuCtxGetFlags"), count("cuLaunchKernel")
    calling = knock(peer)
    peer.send(wire.Awake(lost=True))
    assert calling.result() == waiting.result() == LOST
    assert start(ask).result() == start(lambda: launch(STREAM)).result() == LOST
    assert before == (count("cuCtxGetFlags"), count("cuLaunchKernel"))
    assert refused(peer) == wire.NotAsleep(1, "the driver has lost it", final=True)


def another_scheduler(server: LockServer) -> None:
    """Who registers behind a closed door says so, and asks anew for it to be opened."""
    peer = use_device(server)
    put_to_sleep(peer)
    calling = knock(peer)
    peer.connection.close()
    peer = server.accept()
    assert peer.expect(wire.Asleep) == wire.Asleep(0)
    peer.expect(wire.Wake)
    peer.send(wire.Awake())
    assert calling.result() == 0
    peer.connection.close()
    client_waits(server.accept())


def forked_child(server: LockServer) -> None:
    """A child has an open door of its own, ends and executes at once; the parent's stays closed."""
    peer = use_device(server)
    put_to_sleep(peer)
    for ends in (lambda: os._exit(ask()), lambda: os.execv("/bin/true", ["true"])):
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            ends()
        assert os.waitpid(pid, 0)[1] == 0
    peer.send(wire.Sleep(2))
    assert peer.expect(wire.Asleep).request == 2


def errno_is_kept(server: LockServer) -> None:
    """A wait at the door does not change errno."""
    peer = use_device(server)
    ready, go = threading.Event(), threading.Event()

    def ask_with_errno() -> int:
        ready.set()
        assert go.wait(TIMEOUT)
        ctypes.set_errno(77)
        return ask() or ctypes.get_errno()

    waited = start(ask_with_errno)
    assert ready.wait(TIMEOUT)
    put_to_sleep(peer)
    go.set()
    peer.expect(wire.Wake)
    peer.send(wire.Awake())
    assert waited.result() == start(ask_with_errno).result() == 77


def known_only_to_the_driver(server: LockServer) -> None:
    """Who finds a function by dlsym that is in no list can never sleep."""
    peer = use_device(server)
    assert DRIVER.cuUnheardOf() == 0
    unknown = wire.NotAsleep(1, "it uses cuUnheardOf, which this version does not know", final=True)
    assert refused(peer) == unknown
    assert DRIVER.cuEGLStreamProducerConnect(ZEROS, None, 0, 0) == 0
    assert refused(peer) == unknown


def asked_of_the_driver(server: LockServer) -> None:
    """The same of one that cuGetProcAddress gives; all that are known may be asked for, and what is not there."""
    peer = use_device(server)
    function = ctypes.c_void_p()
    for name in (b"", b"cuInit", b"cuCtxGetFlags", b"cuNothing"):
        DRIVER.cuGetProcAddress(name, ctypes.byref(function), 13000, ctypes.c_ulonglong(0))
    put_to_sleep(peer)
    # The door is closed, and a look-up passes.
    assert DRIVER.cuGetProcAddress(b"cuUnheardOf", ctypes.byref(function), 13000, ctypes.c_ulonglong(0)) == 0
    peer.send(wire.Awake())
    assert refused(peer) == wire.NotAsleep(1, "it uses cuUnheardOf, which this version does not know", final=True)


def shares_with_others(server: LockServer) -> None:
    """Who gives memory to other processes can never sleep; who was refused that can."""
    peer = use_device(server)
    DRIVER.spy_fail(b"cuMemPoolExportToShareableHandle")
    assert call("cuMemPoolExportToShareableHandle", ctypes.addressof(ZEROS), 0, 1, 0) != 0
    DRIVER.spy_fail(None)
    put_to_sleep(peer)
    peer.send(wire.Awake())
    client_waits(peer)
    assert call("cuMemPoolExportToShareableHandle", ctypes.addressof(ZEROS), 0, 1, 0) == 0
    assert refused(peer) == wire.NotAsleep(1, "it shares memory with other processes", final=True)


def make(name: str, place: int, *arguments: int) -> int:
    """What the call answers that makes memory there; -1 stands for where its properties are."""
    properties = (ctypes.c_int * 22)(1, 0, place, 0)
    where = ctypes.addressof(properties)
    return call(name, ctypes.addressof(ZEROS), *(where if each < 0 else each for each in arguments))


def only_host_memory_counts(server: LockServer, name: str, *arguments: int) -> None:
    """Who has it can never sleep; who was refused it, or has that of a device, can."""
    peer = use_device(server)
    assert make(name, DEVICE_MEMORY, *arguments) == 0
    if name == "cuMemCreate":
        # That is memory, of which the scheduler hears.
        assert peer.receive() == wire.Footprint(2 << 20)
    DRIVER.spy_fail(name.encode())
    assert make(name, HOST_MEMORY, *arguments) != 0
    DRIVER.spy_fail(None)
    put_to_sleep(peer)
    peer.send(wire.Awake())
    client_waits(peer)
    assert make(name, HOST_MEMORY, *arguments) == 0
    why = "the driver made it host memory in a handle or a pool"
    assert refused(peer) == wire.NotAsleep(1, why, final=True)


def has_a_handle_of_host_memory(server: LockServer) -> None:
    """The driver checkpoints it, and fails to restore it."""
    only_host_memory_counts(server, "cuMemCreate", 2 << 20, -1, 0)


def has_a_pool_of_host_memory(server: LockServer) -> None:
    """The same."""
    only_host_memory_counts(server, "cuMemPoolCreate", -1)


if __name__ == "__main__":
    ends_at_once(lambda: globals()[sys.argv[1]](LockServer()))
