"""What ties processes beside communicators, and how the client tells it to whatever scheduler there is."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable

import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler, silent
from tests.shim.nccl_programs import joins, use

Start = Callable[..., ControlledProgram]
HANDLE = range(16)
WORDS = [str(0x01010101 * word) for word in HANDLE]
BYTES = b"".join(bytes([word] * 4) for word in HANDLE)
KEY = hashlib.sha256(BYTES).digest()
ADDRESS = 0x70000000000
GIVE = f"symbol cuIpcGetMemHandle *{','.join(WORDS)} {ADDRESS}"
FREE = f"symbol cuMemFree_v2 {ADDRESS}"
OPEN = f"open_handle cuIpcOpenMemHandle_v2 {ADDRESS}"
CLOSE = f"symbol cuIpcCloseMemHandle {ADDRESS}"


@pytest.fixture
def program(start: Start) -> ControlledProgram:
    """One of them."""
    return start()


@pytest.mark.parametrize(
    ("tie", "end"),
    [
        (GIVE, FREE),
        (OPEN, CLOSE),
        (f"open_handle cuIpcOpenMemHandle {ADDRESS}", CLOSE),
        (f"symbol cuIpcGetEventHandle *{','.join(WORDS)} 48", "symbol cuEventDestroy_v2 48"),
        ("open_handle cuIpcOpenEventHandle 48", "symbol cuEventDestroy 48"),
    ],
)
def test_what_processes_give_each_other(
    program: ControlledProgram, fake_scheduler: FakeScheduler, tie: str, end: str
) -> None:
    """Who gives out memory or an event and who opens it say the same, and that it ended when it is freed or closed."""
    peer = use(program, fake_scheduler)
    join, result = joins(program, peer, tie)
    assert (result, join.key, join.tie, join.size) == ("0", KEY, wire.Tie.MEMORY, 0)
    assert program.do(end) == "0"
    assert peer.expect(wire.Leave) == wire.Leave(KEY, wire.Tie.MEMORY)


def test_given_out_again(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """What was given out is not told again, and ends once."""
    peer = use(program, fake_scheduler)
    joins(program, peer, GIVE)
    assert program.do(GIVE) == "0"
    assert program.do(FREE) == "0"
    peer.expect(wire.Leave)
    assert program.do(FREE) == "0"
    assert silent(peer, 0.1)


@pytest.mark.parametrize(
    "call",
    [
        f"symbol cuMemExportToShareableHandle *{','.join(WORDS)} 5 8 0",
        f"symbol cuMemImportFromShareableHandle *0,0 *{','.join(WORDS)} 8",
    ],
)
def test_fabric_handles(program: ControlledProgram, fake_scheduler: FakeScheduler, call: str) -> None:
    """Memory that is made known over a fabric ties who exports and who imports it, for as long as they live."""
    peer = use(program, fake_scheduler)
    join, result = joins(program, peer, call)
    assert (result, join.key, join.tie) == ("0", KEY, wire.Tie.MEMORY)
    assert program.do("symbol cuMemRelease 5") == "0"
    assert silent(peer, 0.1)


def test_descriptors_tie_nobody(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """A descriptor of memory says nothing that both processes know."""
    peer = use(program, fake_scheduler)
    assert program.do("symbol cuMemExportToShareableHandle *0 5 1 0") == "0"
    assert program.do("symbol cuMemImportFromShareableHandle *0,0 3 1") == "0"
    assert silent(peer, 0.1)


def test_opened_twice(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """What is opened twice is closed twice before the tie ends."""
    peer = use(program, fake_scheduler)
    joins(program, peer, OPEN)
    assert program.do(OPEN) == "0"
    assert program.do(CLOSE) == "0"
    assert silent(peer, 0.1)
    assert program.do(CLOSE) == "0"
    peer.expect(wire.Leave)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("job-7", b"job-7".ljust(32, b"\0")),
        ("x" * 31, b"x" * 31 + b"\0"),
        ("x" * 32, hashlib.sha256(b"x" * 32).digest()),
    ],
)
def test_a_name(start: Start, fake_scheduler: FakeScheduler, name: str, key: bytes) -> None:
    """NVSHARE_GANG ties each device that the process uses, from its first registration on; nobody waits for it."""
    program = start(**{paths.GANG: name})
    for ordinal in range(2):
        peer = use(program, fake_scheduler, ordinal)
        assert peer.expect(wire.Join) == wire.Join(1, key, wire.Tie.NAME)


@pytest.mark.parametrize(
    ("value", "name", "size"),
    [("job:2", b"job", 2), ("job:64", b"job", 64), ("a:b:3", b"a:b", 3), ("x" * 32 + ":4", b"", 4), ("0:2", b"0", 2)],
)
def test_a_name_with_a_size(start: Start, fake_scheduler: FakeScheduler, value: str, name: bytes, size: int) -> None:
    """NAME:SIZE ties by the name alone, and says how many processes there are."""
    program = start(**{paths.GANG: value})
    join = use(program, fake_scheduler).expect(wire.Join)
    key = name.ljust(32, b"\0") if name else hashlib.sha256(b"x" * 32).digest()
    assert join == wire.Join(1, key, wire.Tie.NAME, size)
    assert not program.errors


@pytest.mark.parametrize(
    "value", ["job:0", "job:1", "job:65", "job:x", "job:", ":4", "job:+4", "job:4x", "job:18446744073709551620"]
)
def test_a_wrong_size(start: Start, fake_scheduler: FakeScheduler, value: str) -> None:
    """What is no size is said in one line, and all of it is a name."""
    program = start(**{paths.GANG: value})
    join = use(program, fake_scheduler).expect(wire.Join)
    assert join == wire.Join(1, value.encode().ljust(32, b"\0"), wire.Tie.NAME)
    program.said(f"{paths.GANG}={value} is not NAME:SIZE with 2 to 64 processes; all of it is taken as a name")
    assert len(program.errors) == 1


def test_the_next_scheduler_hears_that_the_gang_was_complete(start: Start, fake_scheduler: FakeScheduler) -> None:
    """JOINED says that all have come: a later scheduler need not wait for those that have ended since."""
    program = start(**{paths.GANG: "job:3"})
    peer = use(program, fake_scheduler)
    for epoch, answered in enumerate([False, True, True], start=1):
        join = peer.expect(wire.Join)
        assert (join.size, join.was_complete) == (3, epoch == 3)
        if answered:
            peer.send(wire.Joined(join.request))
            assert silent(peer, 0.1)
        fake_scheduler.die()
        program.said("lost the scheduler")
        program.errors.clear()
        fake_scheduler.listen()
        peer = fake_scheduler.register(epoch=epoch + 1)


def test_no_ties_are_wanted(start: Start, fake_scheduler: FakeScheduler) -> None:
    """With NVSHARE_GANG=0 nothing is told, and nobody waits."""
    program = start(**{paths.GANG: "0"})
    peer = use(program, fake_scheduler)
    assert program.do(OPEN) == program.do(CLOSE) == program.do(GIVE) == "0"
    assert silent(peer, 0.1)


def test_a_wrong_name(start: Start, fake_scheduler: FakeScheduler) -> None:
    """A name that could not be shown is said once, and counts as none."""
    program = start(**{paths.GANG: "two words"})
    peer = use(program, fake_scheduler)
    use(program, fake_scheduler, 1)
    program.said(f"{paths.GANG} is not made of visible ASCII characters alone")
    assert len(program.errors) == 1
    assert silent(peer, 0.1)


def test_ties_are_told_before_the_lock_is_asked_for(start: Start, fake_scheduler: FakeScheduler) -> None:
    """A scheduler hears first whom a client belongs to, and then that it wants the lock."""
    program = start(**{paths.GANG: "name"})
    assert program.do("use") == "0"
    peer = fake_scheduler.accept()
    program.begin("launch")
    program.waits()
    peer.send(wire.SchedOn(client_id=1, epoch=1))
    peer.send(wire.Limit(0))
    peer.expect(wire.Join)
    peer.expect(wire.ReqLock)


def test_the_next_scheduler_is_told(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """All ties that there are, and none that ended meanwhile."""
    peer = use(program, fake_scheduler)
    joins(program, peer, OPEN)
    joins(program, peer, f"symbol cuIpcGetEventHandle *{','.join(reversed(WORDS))} 48")
    fake_scheduler.die()
    program.said("lost the scheduler")
    assert program.do("symbol cuEventDestroy_v2 48") == "0"
    fake_scheduler.listen()
    peer = fake_scheduler.register(epoch=2)
    assert peer.expect(wire.Join).key == KEY
    assert program.do(CLOSE) == "0"
    peer.expect(wire.Leave)


def test_a_scheduler_that_is_lost_meanwhile(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """Who waits for it goes on; the next one is told."""
    peer = use(program, fake_scheduler)
    program.begin(OPEN)
    first = peer.expect(wire.Join)
    program.waits()
    fake_scheduler.die()
    assert program.answer() == "0"
    fake_scheduler.listen()
    peer = fake_scheduler.register(epoch=2)
    again = peer.expect(wire.Join)
    assert (again.key, again.request) == (first.key, first.request + 1)


def test_an_older_scheduler(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """One that knows of no gangs is told nothing, and nobody waits for it."""
    assert program.do("use") == "0"
    peer = fake_scheduler.accept()
    program.begin(OPEN)
    program.waits()  # it may become one that knows
    peer.send(wire.SchedOn(client_id=1, epoch=1, level=2))
    assert program.answer() == "0"
    assert program.do(CLOSE) == "0"
    assert silent(peer, 0.1)


@pytest.mark.parametrize("answer", ["joined", "level"])
def test_an_answer_ends_the_wait(start: Start, fake_scheduler: FakeScheduler, answer: str) -> None:
    """Who is answered goes on before one who began to wait earlier, and gives up some time."""
    first, second = start(), start()
    use(first, fake_scheduler)
    first.begin(OPEN)
    first.waits()
    if answer == "joined":
        assert joins(second, use(second, fake_scheduler), OPEN)[1] == "0"
    else:
        second.begin("use")
        fake_scheduler.accept().send(wire.SchedOn(client_id=1, epoch=1, level=2))
        assert second.answer() == "0"
        assert second.do(OPEN) == "0"
    assert not first.answered()


def test_no_scheduler(program: ControlledProgram) -> None:
    """Where there is none nobody waits for it."""
    assert program.do("use") == "0"
    assert program.do(OPEN) == "0"


def test_a_scheduler_that_does_not_answer(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """The program goes on after a while, and stays tied."""
    peer = use(program, fake_scheduler)
    program.begin(OPEN)
    join = peer.expect(wire.Join)
    program.waits()
    assert program.answer() == "0"
    peer.send(wire.Joined(join.request))
    assert program.do(OPEN) == "0"


def test_the_lock_can_be_given_back_meanwhile(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """Who waits until a tie is in effect keeps nobody from draining: a gang's lock may be given anew."""
    peer = use(program, fake_scheduler)
    program.begin("launch")
    peer.expect_wanting()
    peer.grant()
    assert program.answer() == "0"
    program.begin(OPEN)
    join = peer.expect(wire.Join)
    peer.take_back()
    program.waits()
    peer.send(wire.Joined(join.request))
    assert program.answer() == "0"


def test_a_wrong_answer(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """A scheduler that answers what was not asked is left."""
    peer = use(program, fake_scheduler)
    peer.send(wire.Joined(7))
    program.said("which it must not now")


def test_a_child_is_tied_to_nobody(start: Start, fake_scheduler: FakeScheduler) -> None:
    """A forked child has none of its parent's ties, but the name that the user gave."""
    program = start(**{paths.GANG: "name"})
    peer = use(program, fake_scheduler)
    peer.expect(wire.Join)
    joins(program, peer, OPEN)
    child = int(program.do("fork use"))
    try:
        peer = fake_scheduler.register()
        assert peer.expect(wire.Join).tie is wire.Tie.NAME
        peer.expect_wanting()
        assert silent(peer, 0.1)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_call_that_fails(program: ControlledProgram, fake_scheduler: FakeScheduler) -> None:
    """Memory that could not be opened ties nobody; memory that could not be closed still does."""
    peer = use(program, fake_scheduler)
    assert program.do("fail cuIpcOpenMemHandle_v2") == "0"
    join, result = joins(program, peer, OPEN)
    assert result == "1"
    assert peer.expect(wire.Leave).key == join.key
    assert program.do("fail cuIpcCloseMemHandle") == "0"
    joins(program, peer, OPEN)
    assert program.do(CLOSE) == "1"
    assert program.do("fail") == "0"
    assert silent(peer, 0.1)
    assert program.do(CLOSE) == "0"
    peer.expect(wire.Leave)
