"""Devices of one process that reach each other's memory are tied to each other: what a scheduler hears of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvshare import paths, simgpu
from nvshare.protocol import wire
from tests.conftest import Libraries
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.lock_server import readable
from tests.shim.memory_peer import MemoryPeer
from tests.shim.test_notices import PEER_ACCESS

Start = Callable[..., ControlledProgram]
SIZE = 64 << 20


@pytest.fixture
def start(environment: dict[str, str], libraries: Libraries, tmp_path: Path) -> Iterator[Start]:
    """Starts programs on three simulated devices, with memory that swaps."""
    started: list[ControlledProgram] = []

    def begin(**variables: str) -> ControlledProgram:
        own = {paths.LD_PRELOAD: str(libraries.shim), paths.MEMORY: "swap"}
        devices = simgpu.environment(tmp_path / "simgpu", "3x512MiB/16MiB")
        program = ControlledProgram(environment | devices | own | variables, name="call_loop.py")
        started.append(program)
        return program

    yield begin
    for program in started:
        program.end()


def use(program: ControlledProgram, scheduler: FakeScheduler, ordinal: int) -> MemoryPeer:
    """The program has a context on a device."""
    assert program.do("cuInit 0") == "0"
    program.begin(f"cuDevicePrimaryCtxRetain &primary{ordinal} {ordinal}")
    peer = MemoryPeer(scheduler.register())
    peer.grow()
    assert program.answer() == "0"
    return peer


def hear_join(peer: MemoryPeer) -> wire.Join:
    """The next JOIN; before it comes what is resident."""
    while not isinstance(frame := peer.peer.receive(), wire.Join):
        assert isinstance(frame, wire.Resident), frame
    return frame


def joins_nobody(peer: MemoryPeer) -> bool:
    """Whether it says nothing more of ties."""
    while readable(peer.peer, 0.1):
        if isinstance(peer.peer.receive(), wire.Join | wire.Leave):
            return False
    return True


def enable(user: int, owner: int) -> tuple[str, str]:
    """The calls by which one device reaches another one's memory."""
    return f"cuCtxSetCurrent primary{user}", f"cuCtxEnablePeerAccess primary{owner} 0"


def test_both_are_told_before_the_call_goes_on(start: Start, fake_scheduler: FakeScheduler) -> None:
    """Both say the same key, which nobody else has; the call returns when the scheduler has answered both."""
    program = start()
    peers = [use(program, fake_scheduler, ordinal) for ordinal in range(2)]
    current, reach = enable(0, 1)
    assert program.do(current) == "0"
    program.begin(reach)
    joins = [hear_join(peer) for peer in peers]
    assert joins[0] == joins[1]
    assert (joins[0].tie, joins[0].size) == (wire.Tie.MEMORY, 0)
    assert any(joins[0].key)
    for peer in peers:
        program.waits()
        assert not program.answered()
        peer.peer.send(wire.Joined(1))
    assert program.answer() == "0"
    assert not program.errors


def reaches(program: ControlledProgram, user: int, owner: int, new: list[MemoryPeer]) -> set[bytes]:
    """One device reaches another one's memory, because of which these devices are tied; the keys that they say."""
    current, reach = enable(user, owner)
    assert program.do(current) == "0"
    program.begin(reach)
    keys = set()
    for peer in new:
        join = hear_join(peer)
        peer.peer.send(wire.Joined(join.request))
        keys.add(join.key)
    assert program.answer() == "0"
    return keys


def test_a_tie_is_told_once(start: Start, fake_scheduler: FakeScheduler) -> None:
    """The way back adds nothing; a third device is tied by the same key, and says that alone."""
    program = start()
    peers = [use(program, fake_scheduler, ordinal) for ordinal in range(3)]
    keys = reaches(program, 0, 1, peers[:2])
    assert not reaches(program, 1, 0, [])
    assert reaches(program, 1, 2, peers[2:]) == keys
    assert len(keys) == 1
    assert all(joins_nobody(peer) for peer in peers)


def test_each_process_has_a_key_of_its_own(start: Start, fake_scheduler: FakeScheduler) -> None:
    """Two processes whose devices reach each other don't belong together."""
    keys = []
    for _ in range(2):
        program = start()
        keys += reaches(program, 0, 1, [use(program, fake_scheduler, ordinal) for ordinal in range(2)])
    assert len(set(keys)) == 2


def test_whoever_wants_no_gang_is_not_tied(start: Start, fake_scheduler: FakeScheduler) -> None:
    """With NVSHARE_GANG=0 the call returns at once; what nothing prevents then is said."""
    program = start(**{paths.GANG: "0"})
    peers = [use(program, fake_scheduler, ordinal) for ordinal in range(2)]
    assert not reaches(program, 0, 1, [])
    assert all(joins_nobody(peer) for peer in peers)
    program.said(PEER_ACCESS.text)


def test_memory_that_stays_ties_nobody(start: Start, fake_scheduler: FakeScheduler) -> None:
    """What does not move is there whoever has the lock of its device: that devices reach each other is said only."""
    program = start(**{paths.MEMORY: "native"})
    assert program.do("cuInit 0") == "0"
    peers = []
    for ordinal in range(2):
        peers.append(MemoryPeer(fake_scheduler.serve(program, f"cuDevicePrimaryCtxRetain &primary{ordinal} {ordinal}")))
    assert not reaches(program, 0, 1, [])
    assert all(joins_nobody(peer) for peer in peers)
    program.said(PEER_ACCESS.text)


@pytest.fixture
def mapped(start: Start, fake_scheduler: FakeScheduler) -> tuple[ControlledProgram, list[MemoryPeer]]:
    """A program on two devices with a mapping of memory of the first one, without access yet."""
    program = start()
    peers = [use(program, fake_scheduler, ordinal) for ordinal in range(2)]
    assert program.do("cuCtxSetCurrent primary0") == "0"
    program.do("describe 0")
    assert program.do(f"cuMemAddressReserve &address {SIZE} 0 0 0") == "0"
    program.begin(f"cuMemCreate &handle {SIZE} allocation 0")
    peers[0].grow()
    assert program.answer() == "0"
    assert program.do(f"cuMemMap address {SIZE} 0 handle 0") == "0"
    return program, peers


def test_memory_that_is_mapped_for_another_device(mapped: tuple[ControlledProgram, list[MemoryPeer]]) -> None:
    """Access that another device is given to a mapping ties both, as peer access does."""
    program, peers = mapped
    program.do("describe 1")
    program.begin(f"cuMemSetAccess address {SIZE} access 1")
    joins = [hear_join(peer) for peer in peers]
    assert joins[0] == joins[1]
    for peer in peers:
        peer.peer.send(wire.Joined(1))
    assert program.answer() == "0"


@pytest.mark.parametrize("access", ["0", "1 1 0"])
def test_access_that_reaches_nobody(mapped: tuple[ControlledProgram, list[MemoryPeer]], access: str) -> None:
    """Its own device's access, and that which is taken away, tie nobody, and nothing is said of them."""
    program, peers = mapped
    program.do(f"describe {access}")
    assert program.do(f"cuMemSetAccess address {SIZE} access 1") == "0"
    assert all(joins_nobody(peer) for peer in peers)
    assert not program.errors
