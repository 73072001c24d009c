"""The client against a scheduler that the test plays: every state, and every way to lose the scheduler in it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler, hung_up, silent
from tests.shim.lock_server import Peer

Start = Callable[..., ControlledProgram]


@pytest.fixture
def scheduler(run_dir: paths.RunDir) -> Iterator[FakeScheduler]:
    """Listens where the program looks."""
    with FakeScheduler(run_dir.client_socket) as fake:
        yield fake


def reach_idle(program: ControlledProgram, scheduler: FakeScheduler) -> Peer:
    """Registered, with nothing to do."""
    return scheduler.serve(program)


def reach_waiting(program: ControlledProgram, scheduler: FakeScheduler) -> Peer:
    """A launch waits."""
    peer = reach_idle(program, scheduler)
    program.begin("launch")
    peer.expect(wire.ReqLock)
    return peer


def reach_holding(program: ControlledProgram, scheduler: FakeScheduler) -> Peer:
    """A launch has been let through."""
    peer = reach_waiting(program, scheduler)
    peer.grant()
    assert program.answer() == "0"
    return peer


def test_a_turn(start: Start, scheduler: FakeScheduler) -> None:
    """Says who it is, asks when it launches, runs when it may, and gives the lock back when asked."""
    program = start()
    peer = scheduler.serve(program)
    assert peer.register.pid == program.pid
    assert peer.register.device_uuid == b"a" * 16
    assert peer.register.total_bytes == 16 << 30
    assert peer.register.backend is wire.Backend.NATIVE
    assert peer.register.state is wire.State.IDLE
    assert peer.register.command.startswith("python")
    assert silent(peer, 0.2), "nothing to do, nothing to say"
    program.begin("launch")
    peer.expect(wire.ReqLock)
    program.waits()
    peer.grant()
    assert program.answer() == "0"
    assert program.do("launch") == "0", "the lock is held"
    peer.take_back()
    program.begin("launch")
    peer.expect(wire.ReqLock)
    program.waits()
    peer.grant()
    assert program.answer() == "0"
    assert program.errors == []


def test_frames_in_pieces(start: Start, scheduler: FakeScheduler) -> None:
    """A frame counts when all of it has come, and two that come at once are two."""
    program = start()
    peer = reach_waiting(program, scheduler)
    frame = wire.encode(wire.LockOk(1))
    for byte in frame[:-1]:
        peer.connection.sendall(bytes([byte]))
    program.client_waits(peer)
    program.waits()
    peer.connection.sendall(frame[-1:] + wire.encode(wire.DropLock(1)))
    assert peer.expect(wire.LockReleased).grant == 1


def test_scheduler_dies_before_it_answers(start: Start, scheduler: FakeScheduler) -> None:
    """A client that was never registered says the same to the next scheduler."""
    program = start()
    program.do("use")
    scheduler.accept()
    scheduler.die()
    scheduler.listen()
    peer = scheduler.register()
    assert (peer.register.state, peer.register.epoch) == (wire.State.IDLE, 0)


def test_scheduler_dies_while_idle(start: Start, scheduler: FakeScheduler) -> None:
    """An idle client comes back idle and can ask the next scheduler."""
    program = start()
    reach_idle(program, scheduler)
    scheduler.die()
    program.said("lost the scheduler")
    scheduler.listen()
    peer = scheduler.register(epoch=2)
    assert (peer.register.state, peer.register.epoch) == (wire.State.IDLE, 1)
    program.begin("launch")
    peer.expect(wire.ReqLock)
    peer.grant()
    assert program.answer() == "0"


def test_scheduler_dies_while_waiting(start: Start, scheduler: FakeScheduler) -> None:
    """A waiter comes back as one, without asking again, and nothing ran in between."""
    program = start()
    reach_waiting(program, scheduler)
    scheduler.die()
    scheduler.listen()
    peer = scheduler.register(epoch=2)
    assert peer.register.state is wire.State.WAITING
    program.client_waits(peer)
    program.waits()
    peer.grant()
    assert program.answer() == "0"


def test_scheduler_dies_while_held(start: Start, scheduler: FakeScheduler) -> None:
    """A holder goes on without a scheduler and tells the next one its grant."""
    program = start()
    reach_holding(program, scheduler)
    scheduler.die()
    program.said("lost the scheduler")
    assert program.do("launch") == "0"
    scheduler.listen()
    peer = scheduler.register(epoch=2)
    assert (peer.register.state, peer.register.grant, peer.register.epoch) == (wire.State.HOLDING, 1, 1)
    peer.send(wire.DropLock(1))
    assert peer.expect(wire.LockReleased).grant == 1


def reach_draining(program: ControlledProgram, scheduler: FakeScheduler) -> None:
    """The lock is asked for, and the drain waits for the end of a capture."""
    peer = reach_holding(program, scheduler)
    assert program.do("symbol cuStreamBeginCapture_v2 1 0") == "0"
    peer.revoke()
    program.client_waits(peer)


def test_scheduler_dies_while_draining(start: Start, scheduler: FakeScheduler) -> None:
    """A drain goes on, and the next scheduler hears of it and of its end."""
    program = start()
    reach_draining(program, scheduler)
    scheduler.die()
    scheduler.listen()
    peer = scheduler.register(epoch=2)
    assert (peer.register.state, peer.register.grant, peer.register.epoch) == (wire.State.DRAINING, 1, 1)
    program.client_waits(peer)
    assert program.do("symbol cuStreamEndCapture 1 *0,0") == "0"
    assert peer.expect(wire.LockReleased).grant == 1


def test_drain_ends_without_a_scheduler(start: Start, scheduler: FakeScheduler) -> None:
    """Whoever revoked and died was not given the lock back: the client goes on, and the next scheduler hears so."""
    program = start()
    reach_draining(program, scheduler)
    scheduler.die()
    program.said("lost the scheduler")
    assert program.do("symbol cuStreamEndCapture 1 *0,0") == "0"
    assert program.do("launch") == "0"
    scheduler.listen()
    peer = scheduler.register(epoch=2)
    assert (peer.register.state, peer.register.grant) == (wire.State.HOLDING, 1)


def test_scheduler_comes_late(start: Start, run_dir: paths.RunDir) -> None:
    """Without a scheduler a launch waits, with one line that names the socket, and is told to the one that comes."""
    program = start()
    program.do("use")
    program.begin("launch")
    program.said(str(run_dir.client_socket))
    with FakeScheduler(run_dir.client_socket) as late:
        peer = late.register()
        assert peer.register.state is wire.State.WAITING
        peer.grant()
        assert program.answer() == "0"
        assert len(program.errors) == 1


def test_run_without_scheduler(start: Start, run_dir: paths.RunDir) -> None:
    """NVSHARE_ON_MISSING=run: launches go through, and a scheduler that comes hears of a holder without a grant."""
    program = start(NVSHARE_ON_MISSING="run")
    program.do("use")
    assert program.do("launch") == "0"
    program.said("running without a lock")
    with FakeScheduler(run_dir.client_socket) as late:
        peer = late.register()
        assert (peer.register.state, peer.register.grant) == (wire.State.HOLDING, 0)
        peer.take_back()


def test_fail_without_scheduler(start: Start, run_dir: paths.RunDir) -> None:
    """NVSHARE_ON_MISSING=fail: launches fail with CUDA_ERROR_SYSTEM_NOT_READY until a scheduler comes."""
    program = start(NVSHARE_ON_MISSING="fail")
    program.do("use")
    assert program.do("launch") == "802"
    program.said("fails until there is one")
    with FakeScheduler(run_dir.client_socket) as late:
        peer = late.register()
        assert peer.register.state is wire.State.IDLE
        # The answer is under way: until it is there, launches still fail.
        poll_until(lambda: asks(program, peer), "a launch asks for the lock")
        peer.grant()
        assert program.answer() == "0"


def asks(program: ControlledProgram, peer: Peer) -> bool:
    """Launches; whether that leads to a request rather than to an error."""
    program.begin("launch")
    poll_until(lambda: program.answered() or not silent(peer, 0), "the launch fails or asks")
    if not program.answered():
        peer.expect(wire.ReqLock)
        return True
    assert program.answer() == "802"
    return False


def test_refused(start: Start, scheduler: FakeScheduler) -> None:
    """The reason is shown, without what would be an order to the terminal, and the program lives on."""
    program = start(NVSHARE_ON_MISSING="fail")
    program.do("use")
    peer = scheduler.accept()
    peer.send(wire.Refused("no such device \x1b[2J"))
    assert hung_up(peer)
    assert "no such device ?[2J" in program.said("refuses")
    assert program.do("launch") == "802"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (bytes(240), "no nvshare scheduler"),
        (b"HTTP/1.1 400 Bad Request\r\n", "no nvshare scheduler"),
        (b"\x05" + bytes(536), "no nvshare scheduler"),
        (wire.encode(wire.LockOk(1)).replace(b"\xa7\x02", b"\xa7\x03", 1)[:2], "speaks protocol 3"),
        (wire.encode(wire.ReqLock()), "sent a frame of type 4"),
        (wire.encode(wire.LockOk(1)), "sent a frame of type 5"),
    ],
    ids=["zeros", "another-service", "version-1", "version-3", "clients-frame", "out-of-turn"],
)
def test_nonsense(start: Start, scheduler: FakeScheduler, data: bytes, words: str) -> None:
    """What is no frame, of another version, or out of turn ends the connection, is said once, and is tried again."""
    program = start()
    program.begin("use")
    for _ in range(2):
        peer = scheduler.accept()
        peer.connection.sendall(data)
        assert hung_up(peer)
    program.said(words)
    peer = scheduler.register()
    program.answer()
    program.begin("launch")
    peer.expect(wire.ReqLock)
    assert len([line for line in program.errors if words in line]) == 1


def test_half_a_frame(start: Start, scheduler: FakeScheduler) -> None:
    """A connection that ends within a frame leaves nothing of it behind."""
    program = start()
    peer = reach_waiting(program, scheduler)
    peer.connection.sendall(wire.encode(wire.LockOk(1))[:100])
    scheduler.die()
    scheduler.listen()
    peer = scheduler.register()
    peer.grant()
    assert program.answer() == "0"


def test_gives_way_when_idle(start: Start, scheduler: FakeScheduler) -> None:
    """A holder for which others wait gives the lock back by itself once it is idle, and asks again when it has work."""
    program = start()
    peer = reach_holding(program, scheduler)
    assert silent(peer, 0.2), "nobody waits"
    peer.send(wire.Waiters(1, 20_000))
    assert peer.expect(wire.LockReleased).grant == 1
    program.begin("launch")
    peer.expect(wire.ReqLock)


def test_footprint(start: Start, scheduler: FakeScheduler) -> None:
    """The scheduler hears what is allocated: at once when it registers, and the newest value soon after each change."""
    program = start()
    peer = reach_idle(program, scheduler)
    assert program.do("allocate 1000") == "0"
    frame = peer.receive()
    assert frame == wire.Footprint(1000)
    for _ in range(200):
        program.begin("allocate 1000")
    frames = 0
    while frame != wire.Footprint(201_000):
        frame = peer.receive()
        frames += 1
    assert frames < 200
    scheduler.die()
    scheduler.listen()
    assert scheduler.register().register.footprint_bytes == 201_000


def test_devices_are_clients_of_their_own(start: Start, scheduler: FakeScheduler) -> None:
    """A process is one client on each device that it uses."""
    program = start()
    peers = []
    for ordinal in (0, 1):
        program.do(f"use {ordinal}")
        peers.append(scheduler.register())
    assert [peer.register.device_uuid for peer in peers] == [b"a" * 16, b"b" * 16]
    program.begin("launch")
    peers[1].expect(wire.ReqLock)
    program.client_waits(peers[0])


def test_scheduler_that_reads_nothing(start: Start, scheduler: FakeScheduler) -> None:
    """It does not stop a holder: when its socket is full, the client connects anew, and tells of its grant.

    What had been sent are whole frames.
    """
    program = start()
    peer = reach_holding(program, scheduler)
    allocated = 0

    def goes_on_until_lost() -> bool:
        nonlocal allocated
        assert program.do("allocate 10") == "0"
        assert program.do("launch") == "0"
        allocated += 10
        return any("lost the scheduler" in line for line in program.errors)

    poll_until(goes_on_until_lost, "the client ends the connection", timeout=60, interval=0.001)
    again = scheduler.register()
    assert (again.register.state, again.register.grant) == (wire.State.HOLDING, 1)
    assert program.do("launch") == "0"
    unread = received(peer)
    assert len(unread) == frames_of_full_socket()
    assert unread[-1].footprint_bytes <= again.register.footprint_bytes <= allocated


def frames_of_full_socket() -> int:
    """How many frames a socket takes of which nothing is read."""
    frames = 0
    ours, theirs = socket.socketpair()
    with ours, theirs, contextlib.suppress(BlockingIOError):
        ours.setblocking(False)
        while ours.send(bytes(wire.FRAME_BYTES)):
            frames += 1
    return frames


def received(peer: Peer) -> list[wire.Footprint]:
    """The footprints that a client had sent until it ended the connection."""
    data = b"".join(iter(lambda: peer.connection.recv(65536), b""))
    assert len(data) % wire.FRAME_BYTES == 0, "half a frame"
    frames = [wire.decode(data[at : at + wire.FRAME_BYTES]) for at in range(0, len(data), wire.FRAME_BYTES)]
    footprints = [frame for frame in frames if isinstance(frame, wire.Footprint)]
    assert len(footprints) == len(frames)
    return footprints
