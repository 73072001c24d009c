"""The program is to wake, or its scheduler dies, while blocks go into a pack, are there, and come back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.conftest import Libraries
from tests.polling import poll_until
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK, GRANULE, MemoryPeer
from tests.shim.packing import (
    allocated_bytes,
    away,
    dedup,
    has_open,
    maps_pack,
    name_blocks,
    new_catalogue,
    new_pack,
    packed,
    put_away,
    reach_asleep_with,
    sum_up,
)
from tests.shim.storing import (
    ARENA_BYTES,
    X_BYTES,
    ask_to_store,
    empty_file,
    has_file,
    has_right_contents,
    load,
    meet_next,
    reach_asleep,
    wake,
)
from tests.shim.swapping import Start

ANSWERS: dict[str, wire.Frame] = {
    "sum": wire.Summed(text="it is to wake"),
    "pack": wire.Packed("it is to wake"),
    "dedup": wire.Deduped(text="it is to wake"),
}


@pytest.fixture
def hold(tmp_path: Path) -> Path:
    """While this is there no block is written, compared or copied, and no catalogue written."""
    return tmp_path / "hold"


@pytest.fixture
def program(
    start_swapping: Start, libraries: Libraries, compile_c: Callable[..., Path], hold: Path
) -> ControlledProgram:
    """Has one simulated device; its packs can be held."""
    held = compile_c("programs/held_packs.c", "held_packs.so", "-shared", "-fPIC", "-fno-builtin")
    return start_swapping(HELD_PACKS=str(hold), **{paths.LD_PRELOAD: f"{held}:{libraries.shim}"})


def begin(peer: MemoryPeer, program: ControlledProgram, step: str, hold: Path) -> None:
    """Asks for PACK or DEDUP, after what comes before that, and has it stand still at its first blocks.

    Who is given up before it has come to a block ends at once, and there is nothing to hold.
    """
    if step == "pack":
        catalogue, sums = sum_up(peer)
        name_blocks(catalogue, sums)
        frame, file = wire.encode(wire.Pack()), new_pack()
    else:
        frame, file = wire.encode(wire.Dedup()), packed(peer)[0]
    hold.touch()
    peer.send_with(frame, file)
    with hold.open() as held:
        poll_until(lambda: has_file(program.pid, held.fileno()), f"{step} stands still")
    os.close(file)


def sum_up_again(peer: MemoryPeer) -> None:
    """As soon as what was under way has ended."""

    def summed() -> bool:
        peer.send_with(wire.encode(wire.Sum()), new_catalogue())
        return not peer.expect(wire.Summed).text

    poll_until(summed, "it can be summed up")


@pytest.mark.parametrize("step", ANSWERS)
def test_a_call_waits_already(program: ControlledProgram, fake_scheduler: FakeScheduler, hold: Path, step: str) -> None:
    """A step that is asked for then does not begin."""
    peer, memory = reach_asleep_with(program, fake_scheduler)
    if step != "sum":
        pack, _, _ = packed(peer)
    program.begin("check x x")
    peer.expect(wire.Wake)
    frames = {"sum": wire.Sum(), "pack": wire.Pack(), "dedup": wire.Dedup()}
    peer.send_with(wire.encode(frames[step]), new_catalogue() if step == "sum" else pack)
    assert peer.expect(type(ANSWERS[step])) == ANSWERS[step]
    assert allocated_bytes(memory) == X_BYTES
    wakes(program, peer)


def wakes(program: ControlledProgram, peer: MemoryPeer) -> None:
    """The door opens, and the call that waits finds its right bytes."""
    peer.peer.send(wire.Awake())
    peer.expect(wire.ReqLock)
    peer.allot(X_BYTES, X_BYTES)
    peer.peer.grant()
    assert program.answer() == "right"
    assert not maps_pack(program.pid)
    assert not has_open(program.pid, "catalogue")
    assert not has_open(program.pid, "pack")


@pytest.mark.parametrize("step", ["pack", "dedup"])
def test_a_call_comes_meanwhile(
    program: ControlledProgram, fake_scheduler: FakeScheduler, hold: Path, step: str
) -> None:
    """The step ends with the blocks that are just looked at, and nothing is let go of."""
    peer, memory = reach_asleep_with(program, fake_scheduler)
    begin(peer, program, step, hold)
    program.begin("check x x")
    peer.expect(wire.Wake)
    program.client_waits(peer.peer)
    hold.unlink()
    assert peer.expect(type(ANSWERS[step])) == ANSWERS[step]
    assert allocated_bytes(memory) == X_BYTES
    wakes(program, peer)


@pytest.mark.parametrize("wake_first", [False, True])
@pytest.mark.parametrize("step", ["pack", "dedup"])
def test_the_scheduler_dies_meanwhile(
    program: ControlledProgram, fake_scheduler: FakeScheduler, hold: Path, step: str, wake_first: bool
) -> None:
    """The next one hears nothing of it, can begin anew when it has ended, and can have it woken before that."""
    peer, memory = reach_asleep_with(program, fake_scheduler)
    begin(peer, program, step, hold)
    fake_scheduler.die()
    peer = meet_next(fake_scheduler)
    assert peer.resident.arena_bytes == ARENA_BYTES
    peer.send_with(wire.encode(wire.Sum()), new_catalogue())
    assert peer.expect(wire.Summed) == wire.Summed(text="its host memory is away, or not back yet")
    if wake_first:
        program.begin("check x x")
        peer.expect(wire.Wake)
        peer.peer.send(wire.Awake())
        program.client_waits(peer.peer)
        program.waits()
        hold.unlink()
        peer.expect(wire.ReqLock)
        peer.allot(X_BYTES, X_BYTES)
        peer.peer.grant()
        assert program.answer() == "right"
        return
    hold.unlink()
    poll_until(lambda: not maps_pack(program.pid) and not has_open(program.pid, "pack"), "it has ended")
    assert allocated_bytes(memory) == X_BYTES
    sum_up_again(peer)
    put_away(peer)
    load(peer, X_BYTES)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_the_scheduler_dies_while_it_sums_up(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """The next one hears nothing of it either."""
    peer = reach_asleep(program, fake_scheduler)
    peer.send_with(wire.encode(wire.Sum()), new_catalogue())
    fake_scheduler.die()
    peer = meet_next(fake_scheduler)
    sum_up_again(peer)
    put_away(peer)
    load(peer, X_BYTES)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_a_file_is_asked_for_meanwhile(
    program: ControlledProgram, fake_scheduler: FakeScheduler, hold: Path, tmp_path: Path
) -> None:
    """By the next scheduler: not before nothing is compared any more."""
    peer = reach_asleep(program, fake_scheduler)
    begin(peer, program, "dedup", hold)
    fake_scheduler.die()
    peer = meet_next(fake_scheduler)
    ask_to_store(peer, empty_file(tmp_path))
    assert "blocks of it are kept with those of others" in peer.expect(wire.NotStored).text
    hold.unlink()
    poll_until(lambda: not maps_pack(program.pid), "it has ended")
    wake(peer)
    has_right_contents(program, peer, "x")


def test_while_it_is_away(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """The next one hears what is away, in which pack, and gives as much; what was given is free."""
    peer, memory = reach_asleep_with(program, fake_scheduler)
    pack = put_away(peer)
    for given in (0, CHUNK + GRANULE):
        if given:
            peer.arena(given)
            program.client_waits(peer.peer)
        fake_scheduler.die()
        peer = meet_next(fake_scheduler, said=away(pack))
        assert peer.resident.arena_bytes == ARENA_BYTES
        assert maps_pack(program.pid)
        assert allocated_bytes(memory) == 0
    load(peer, X_BYTES)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_while_some_of_it_comes_back(program: ControlledProgram, fake_scheduler: FakeScheduler, hold: Path) -> None:
    """What was given is let go when nobody copies into it any more, and the next one gives all."""
    peer = reach_asleep(program, fake_scheduler)
    pack = put_away(peer)
    hold.touch()
    peer.arena(CHUNK)
    program.client_waits(peer.peer)
    fake_scheduler.die()
    hold.unlink()
    peer = meet_next(fake_scheduler, said=away(pack))
    load(peer, CHUNK, X_BYTES - CHUNK)
    wake(peer)
    has_right_contents(program, peer, "x")


def test_while_the_last_of_it_comes_back(program: ControlledProgram, fake_scheduler: FakeScheduler, hold: Path) -> None:
    """Memory has it then, and the next one hears nothing else; if that wakes it the door opens when all is there."""
    peer = reach_asleep(program, fake_scheduler)
    put_away(peer)
    hold.touch()
    peer.arena(X_BYTES)
    program.client_waits(peer.peer)
    fake_scheduler.die()
    peer = meet_next(fake_scheduler)
    program.begin("check x x")
    peer.expect(wire.Wake)
    peer.peer.send(wire.Awake())
    program.client_waits(peer.peer)
    program.waits()
    hold.unlink()
    peer.expect(wire.ReqLock)
    peer.allot(X_BYTES, X_BYTES)
    peer.peer.grant()
    assert program.answer() == "right"


def test_a_pack_outlives_its_scheduler(
    start_swapping: Start, program: ControlledProgram, fake_scheduler: FakeScheduler
) -> None:
    """Of two who share it one wakes with the first scheduler, the other with the next; then it is gone."""
    other = start_swapping()
    peer = reach_asleep(program, fake_scheduler)
    pack, _, known = packed(peer)
    assert dedup(peer, pack) == away(pack)
    second = reach_asleep(other, fake_scheduler)
    file, sums = sum_up(second)
    name_blocks(file, sums, [known.index(found) for found in sums])
    assert dedup(second, pack) == away(pack)
    said = away(pack)
    os.close(pack)
    load(second, X_BYTES)
    wake(second)
    has_right_contents(other, second, "x")
    other.end()
    fake_scheduler.die()
    peer = meet_next(fake_scheduler, said=said)
    load(peer, X_BYTES)
    wake(peer)
    has_right_contents(program, peer, "x")
