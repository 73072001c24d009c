"""The memory limit of the environment, and the scheduler's word on it; also where that is lost, or knows no limits."""

from __future__ import annotations

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK, MemoryPeer
from tests.shim.swapping import Start, reach_allocated, reach_registered

LIMITED = {paths.MEMORY_LIMIT: str(4 * CHUNK)}
OUT_OF_MEMORY = "2"


@pytest.mark.parametrize("command", ["alloc", "create", "alloc_array"])
def test_a_lost_scheduler_lets_nobody_pass_it(
    start_swapping: Start, fake_scheduler: FakeScheduler, command: str
) -> None:
    """What waits for an answer that does not come is had if it fits the limit, and else refused."""
    program = start_swapping(**LIMITED)
    peer = reach_registered(program, fake_scheduler)
    reach_allocated(program, peer, "x", CHUNK)
    program.begin(f"{command} y {4 * CHUNK}")
    peer.expect(wire.Grow)
    fake_scheduler.die()
    assert program.answer() == OUT_OF_MEMORY
    assert program.do(f"{command} y {3 * CHUNK}") == "0"
    assert program.do(f"{command} z {CHUNK // 32}") == OUT_OF_MEMORY
    assert f"limit {4 * CHUNK}, used {4 * CHUNK}, requested" in program.said("out of memory on device 0")


def test_the_schedulers_word_counts(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """It knows of the others, and what the operator set; without it the last word stays."""
    program = start_swapping(**LIMITED)
    peer = reach_registered(program, fake_scheduler)
    peer.peer.send(wire.Limit(8 * CHUNK, 3 * CHUNK))
    reach_allocated(program, peer, "x", 4 * CHUNK)
    fake_scheduler.die()
    program.said("lost the scheduler")
    assert program.do(f"alloc y {2 * CHUNK}") == OUT_OF_MEMORY
    assert program.do(f"alloc y {CHUNK}") == "0"


def test_no_limit_any_more(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """The scheduler says that there is none: that of the environment is not the container's."""
    program = start_swapping(**LIMITED)
    peer = reach_registered(program, fake_scheduler)
    peer.peer.send(wire.Limit(0, 0))
    reach_allocated(program, peer, "x", CHUNK)
    fake_scheduler.die()
    program.said("lost the scheduler")
    assert program.do(f"alloc y {8 * CHUNK}") == "0"


def test_an_older_scheduler(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """One that knows nothing of swapping, nor of limits: the process keeps to its own."""
    program = start_swapping(**LIMITED)
    assert program.do("use") == "0"
    fake_scheduler.accept().send(wire.SchedOn(client_id=1, epoch=1, level=1))
    assert program.do(f"alloc x {3 * CHUNK}") == "0"
    assert program.do(f"alloc y {2 * CHUNK}") == OUT_OF_MEMORY
    assert program.do(f"alloc y {CHUNK}") == "0"


def test_a_refusal_says_the_containers_numbers(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """Where the limit is in the way; where it is not the device's."""
    program = start_swapping(**LIMITED)
    peer = reach_registered(program, fake_scheduler)
    peer.peer.send(wire.Limit(4 * CHUNK, 3 * CHUNK))
    program.begin(f"alloc x {2 * CHUNK}")
    refuse(peer, "the container's limit")
    assert program.answer() == OUT_OF_MEMORY
    line = program.said("out of memory on device 0")
    assert f"limit {4 * CHUNK}, used {3 * CHUNK}, requested {2 * CHUNK} bytes: the container's limit" in line


def test_a_refusal_is_never_cut(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """Its text comes in pieces; the next one is not taken for its end."""
    program = start_swapping(**LIMITED)
    peer = reach_registered(program, fake_scheduler)
    text = " ".join(f"word-{place:02}" for place in range(56)) + " \N{EURO SIGN}"
    assert len(text.encode()) > 4 * wire.TEXT_BYTES
    program.begin(f"alloc x {2 * CHUNK}")
    refuse(peer, text)
    assert program.answer() == OUT_OF_MEMORY
    assert program.said("out of memory on device 0").endswith(f"requested {2 * CHUNK} bytes: {text}")
    peer.peer.send(wire.Reason(text, memory=1))
    peer.peer.send(wire.Reason("short", memory=1))
    assert program.said("has waited for 10 s: word").endswith(text)
    assert program.said("10 s: short").endswith("10 s: short")


def refuse(peer: MemoryPeer, text: str) -> None:
    """Refuses the next wish."""
    peer.peer.send(wire.RefuseGrowth(peer.expect(wire.Grow).request, text))
