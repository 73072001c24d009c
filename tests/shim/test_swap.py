"""Memory that swaps, against a scheduler that the test plays: allotments, and what the mover does of them."""

from __future__ import annotations

import signal

from nvshare import paths
from nvshare.protocol import wire
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.lock_server import TIMEOUT
from tests.shim.memory_peer import CHUNK, GRANULE, MemoryPeer
from tests.shim.swapping import Start, reach_allocated, reach_registered, reach_written


def test_out_and_back(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """What was allocated is brought out and comes back, at the same address and with the same contents."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", 3 * CHUNK)
    address = program.do("address x")
    peer.evict(CHUNK)
    peer.heard(resident_bytes=CHUNK, out_bytes=2 * CHUNK, order=peer.order)
    peer.evict(0)
    peer.heard(resident_bytes=0, out_bytes=3 * CHUNK, order=peer.order)
    peer.allot(3 * CHUNK, 3 * CHUNK)
    peer.heard(resident_bytes=3 * CHUNK, out_bytes=0)
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"
    assert program.do("address x") == address
    assert program.errors == []


def test_what_was_never_written_is_not_swapped(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """It has nothing that could be copied, so nothing of it moves when it leaves or comes; what is freed is gone."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", CHUNK)
    peer.evict(0)
    peer.heard(resident_bytes=0, out_bytes=CHUNK, order=peer.order)
    program.begin(f"alloc y {2 * CHUNK}")
    peer.allot(0, 3 * CHUNK, peer.expect(wire.Grow).request)
    assert program.answer() == "0"
    peer.heard(footprint_bytes=3 * CHUNK, resident_bytes=0, out_bytes=CHUNK)
    peer.allot(3 * CHUNK, 3 * CHUNK)
    peer.heard(resident_bytes=3 * CHUNK, out_bytes=0)
    peer.evict(0)
    peer.heard(resident_bytes=0, out_bytes=CHUNK, order=peer.order)
    assert program.do("free x") == "0"
    peer.heard(footprint_bytes=2 * CHUNK, out_bytes=0)


def test_what_comes_in_is_out_until_it_is_there(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """The scheduler hears of its device memory at once, long before a chunk has come over so slow a bus."""
    program = start_swapping(**{paths.SIMGPU_DEVICES: "1x4GiB@256MB/s"})
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", 2 * CHUNK)
    peer.evict(0)
    peer.heard(resident_bytes=0, out_bytes=2 * CHUNK)
    peer.allot(2 * CHUNK, 2 * CHUNK)
    while not (said := peer.heard()).resident_bytes:
        pass
    assert said.out_bytes == 2 * CHUNK
    peer.heard(resident_bytes=2 * CHUNK, out_bytes=CHUNK)
    peer.heard(resident_bytes=2 * CHUNK, out_bytes=0)


def test_a_holder_keeps_its_memory_until_it_has_drained(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """What runs may use it: it leaves when the lock is given back."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_allocated(program, peer, "x", 2 * CHUNK)
    program.begin("write x x")
    peer.grant()
    assert program.answer() == "0"
    peer.evict(0)
    assert program.do("check x x") == "right"
    peer.take_back()
    peer.heard(resident_bytes=0, order=peer.order)


def test_memory_allocated_behind_a_closed_gate(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """It needs no room on the device before its turn; the gate opens when it is there."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    peer.tell(0, 2 * CHUNK)
    assert program.do(f"alloc x {2 * CHUNK}") == "0"
    peer.heard(footprint_bytes=2 * CHUNK, resident_bytes=0)
    program.begin("write x x")
    peer.grant()
    peer.grow()
    assert program.answer() == "0"
    assert program.do("check x x") == "right"


def test_the_lock_is_asked_back_before_everything_is_in(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """It is given back at once: nothing has passed the gate."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    peer.tell(0, 2 * CHUNK)
    assert program.do(f"alloc x {2 * CHUNK}") == "0"
    program.begin("write x x")
    peer.grant()
    grow = peer.expect(wire.Grow)
    peer.take_back()
    assert not program.answered()
    peer.allot(2 * CHUNK, 4 * CHUNK, grow.request)
    peer.grant()
    assert program.answer() == "0"


def test_a_holder_that_waits_for_its_memory_is_not_idle(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """Although it submits nothing while others wait, it keeps the lock until it has used it."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    peer.tell(0, 2 * CHUNK)
    assert program.do(f"alloc x {CHUNK}") == "0"
    program.begin("write x x")
    peer.grant()
    grow = peer.expect(wire.Grow)
    peer.peer.send(wire.Waiters(1, 1000))
    program.client_waits(peer.peer)
    peer.allot(CHUNK, 4 * CHUNK, grow.request)
    assert program.answer() == "0"
    assert peer.expect(wire.LockReleased).grant == 1


def test_orders_change_while_they_are_obeyed(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """An allotment comes while memory leaves, an eviction while it comes: the newest counts, nothing is lost."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler, arena=8 * CHUNK)
    reach_written(program, peer, "x", 8 * CHUNK)
    for _ in range(10):
        peer.evict(0)
        peer.heard(order=peer.order)
        peer.allot(8 * CHUNK, 8 * CHUNK)
        peer.heard(order=peer.order)
        peer.evict(3 * CHUNK)
        peer.heard(order=peer.order)
        peer.allot(8 * CHUNK, 8 * CHUNK)
        peer.heard(order=peer.order)
    peer.heard(resident_bytes=8 * CHUNK) if peer.resident.resident_bytes < 8 * CHUNK else None
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"


def test_what_was_not_changed_leaves_without_another_copy(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """Its host copy is still right; and two allocations may use the same host memory one after the other."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler, arena=2 * CHUNK)
    reach_written(program, peer, "x", 2 * CHUNK)
    peer.out_and_back(2 * CHUNK)
    peer.out_and_back(2 * CHUNK)
    program.begin("check x x")
    peer.grant()
    assert program.answer() == "right"


def test_freed_while_it_is_out(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """Its host memory is another's then."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler, arena=2 * CHUNK)
    for name in ("x", "y", "z"):
        peer.tell(2 * CHUNK, 2 * CHUNK)
        assert program.do(f"alloc {name} {2 * CHUNK}") == "0"
        program.begin(f"write {name} {name}")
        peer.grant()
        assert program.answer() == "0"
        peer.take_back()
        peer.evict(0)
        peer.heard(resident_bytes=0, footprint_bytes=2 * CHUNK)
        assert program.do(f"free {name}") == "0"
        peer.heard(footprint_bytes=0)


def test_two_devices(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """Each has its own allotments, arena and mover."""
    program = start_swapping(**{paths.SIMGPU_DEVICES: "2x4GiB"})
    first = reach_registered(program, fake_scheduler)
    reach_written(program, first, "x", 2 * CHUNK)
    program.begin("use 1")
    second = MemoryPeer(fake_scheduler.register())
    second.grow()
    assert program.answer() == "0"
    second.arena(4 * CHUNK)
    reach_written(program, second, "y", 2 * CHUNK)
    first.evict(0)
    second.evict(0)
    first.heard(resident_bytes=0)
    second.heard(resident_bytes=0)
    second.allot(2 * CHUNK, 2 * CHUNK)
    second.heard(resident_bytes=2 * CHUNK)
    program.begin("check y y")
    second.grant()
    assert program.answer() == "right"
    assert program.do("use 0") == "0"
    program.begin("check x x")
    first.expect(wire.ReqLock)
    first.allot(2 * CHUNK, 2 * CHUNK)
    first.heard(resident_bytes=2 * CHUNK)
    first.peer.grant()
    assert program.answer() == "right"


def test_a_capture_that_goes_on_keeps_the_memory(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """It ends before the lock is given back; its graph finds the memory where it was."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_allocated(program, peer, "x", 2 * CHUNK)
    program.begin("write x x")
    peer.grant()
    assert program.answer() == "0"
    assert program.do("capture x 7") == "0"
    peer.evict(0)
    peer.peer.revoke()
    assert program.do("end_capture") == "0"
    assert peer.expect(wire.LockReleased).grant == 1
    peer.heard(resident_bytes=0)
    peer.allot(2 * CHUNK, 2 * CHUNK)
    peer.heard(resident_bytes=2 * CHUNK)
    program.begin("replay x 7")
    peer.grant()
    assert program.answer() == "right"


def test_room_for_less_than_a_chunk(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """Nothing comes in, and nobody is told that anything did."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", 2 * CHUNK)
    peer.evict(0)
    peer.heard(resident_bytes=0, order=peer.order)
    for granules in range(1, CHUNK // GRANULE):
        peer.allot(granules * GRANULE, 2 * CHUNK)
        said = peer.heard()
        assert (said.order, said.resident_bytes) == (peer.order, 0)
    program.client_waits(peer.peer)
    peer.allot(CHUNK + GRANULE, 2 * CHUNK)
    peer.heard(resident_bytes=CHUNK)


def test_a_signal_ends_the_wait_for_memory(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """A Python program that waits for room can be interrupted."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    program.begin(f"alloc x {CHUNK}")
    peer.expect(wire.Grow)
    program.waits()
    program.process.send_signal(signal.SIGINT)
    program.said("KeyboardInterrupt")
    assert program.process.wait(TIMEOUT)


def test_a_scheduler_that_knows_nothing_of_swapping(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """It hears of all that there is as one footprint, and of each change, and lets nobody in who does not fit."""
    program = start_swapping()
    program.begin("use")
    peer = fake_scheduler.accept()
    peer.send(wire.SchedOn(client_id=1, epoch=1, level=1))
    assert program.answer() == "0"
    assert program.do(f"alloc x {2 * CHUNK}") == "0"
    assert peer.receive() == wire.Footprint(2 * CHUNK)
    assert program.do(f"alloc y {CHUNK}") == "0"
    assert peer.receive() == wire.Footprint(3 * CHUNK)
    fake_scheduler.die()
    fake_scheduler.listen()
    peer = fake_scheduler.accept()
    assert peer.register.footprint_bytes == 3 * CHUNK
    peer.send(wire.SchedOn(client_id=1, epoch=2, level=1))
    program.begin("write x x")
    assert isinstance(peer.receive(), wire.ReqLock)
    peer.grant()
    assert program.answer() == "0"
    assert program.do("check x x") == "right"


def test_what_is_out_when_such_a_scheduler_comes(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """It comes back by itself as far as there is room, and one line says why it may not."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", 2 * CHUNK)
    peer.evict(0)
    peer.heard(resident_bytes=0, order=peer.order)
    fake_scheduler.die()
    fake_scheduler.listen()
    old = fake_scheduler.accept()
    old.send(wire.SchedOn(client_id=1, epoch=2, level=1))
    program.begin("check x x")
    old.expect_wanting()
    old.grant()
    assert program.answer() == "right"
    (line,) = [line for line in program.errors if "knows nothing of swapping" in line]
    assert "when others leave the device" in line
