"""Memory that swaps, given by one process and mapped by another one: the real scheduler, the real library."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvshare import simgpu
from nvshare.paths import RunDir
from nvshare.protocol import wire
from nvshare.scheduler.pods.belonging import belonging_of
from nvshare.scheduler.pods.peer import Peer
from tests.conftest import Libraries
from tests.polling import poll_until
from tests.scheduler.sharing_programs import StartSharing, sharing_programs
from tests.scheduler.swapping_programs import MIB, Serve
from tests.scheduler.wire_client import Scheduler
from tests.shim.thread_state import asleep
from tests.stopping import stop

pytestmark = [pytest.mark.soak, pytest.mark.timeout(120)]

DEVICES = "2x1GiB/32MiB"
SERVED = ("--quantum", "0.3", "--host-memory", "4GiB", "--reserve", "32MiB")


@pytest.fixture
def served(serve: Serve, tmp_path: Path) -> Callable[[], Scheduler]:
    """Starts a scheduler that sees the simulated GPUs."""
    seen = simgpu.environment(tmp_path / "simgpu", DEVICES)
    return lambda: serve(*SERVED, environment=seen)


@pytest.fixture
def start(libraries: Libraries, run_dir: RunDir, tmp_path: Path) -> Iterator[StartSharing]:
    """Starts programs on the simulated GPUs."""
    with sharing_programs(libraries, run_dir, tmp_path / "simgpu", DEVICES) as begin:
        yield begin


@pytest.fixture
def container() -> Iterator[Path]:
    """A cgroup that is called as container runtimes call theirs."""
    folder = next((base for base in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")) if base.is_dir()), None)
    made = folder / f"{os.getpid():064x}" if folder else None
    try:
        assert made is not None
        made.mkdir()
    except (AssertionError, OSError):
        pytest.skip("no cgroup can be made here")
    try:
        yield made
    finally:
        poll_until(lambda: _removed(made), "nobody is in it")


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("size", [1000, 3 * MIB, 150 * MIB], ids=["small", "one chunk", "several chunks"])
def test_both_see_it(served: Callable[[], Scheduler], start: StartSharing, size: int) -> None:
    """What one writes the other reads, in all parts of the block; the handle is the same all over it."""
    served()
    giver, taker = start(), start()
    base = giver.number(f"allocate({size})")
    last = size - 400 & ~3
    giver.do(f"device.fill({base}, 1.5, 100)")
    giver.do(f"device.fill({base + last}, 2.5, 100)")
    handle = giver.text(f"get({base})")
    assert giver.text(f"get({base + size - 1})") == handle
    mapped = taker.number(f"open_it('{handle}')")
    assert taker.do(f"device.floats({mapped}, 100)") == [1.5] * 100
    assert taker.do(f"device.floats({mapped + last}, 100)") == [2.5] * 100
    taker.do(f"device.fill({mapped}, 3.5, 50)")
    taker.do("call('cuCtxSynchronize')")
    assert giver.do(f"device.floats({base}, 100)") == [3.5] * 50 + [1.5] * 50
    assert taker.do(f"tuple(map(int, call('cuMemGetAddressRange', {mapped + size // 2})))") == (mapped, size)
    assert taker.number(f"open_it('{handle}')") == mapped
    assert [taker.do(f"close({mapped})") for _ in range(2)] == ["CUDA_SUCCESS"] * 2
    assert taker.do(f"close({mapped})") != "CUDA_SUCCESS"


def test_others_swap_beside_it(served: Callable[[], Scheduler], start: StartSharing) -> None:
    """What was given stays, and is seen by both, while all other memory of both is brought out and in again."""
    scheduler = served()
    giver, taker = start(), start()
    base = giver.number(f"allocate({70 * MIB})")
    giver.do(f"device.fill({base}, 1.0, 64)")
    mapped = taker.number(f"open_it('{giver.text(f'get({base})')}')")
    for program, mark in ((giver, 5.0), (taker, 6.0)):
        program.do(f"globals().__setitem__('big', allocate({600 * MIB}))")
        program.do(f"device.fill(big, {mark}, 64)")
    for turn in range(3):
        giver.do(f"device.fill({base}, {turn}.5, 64)")
        assert giver.do("(call('cuCtxSynchronize'), device.floats(big, 64))[1]") == [5.0] * 64
        assert taker.do(f"device.floats({mapped}, 64)") == [turn + 0.5] * 64
        assert taker.do("device.floats(big, 64)") == [6.0] * 64
    clients = [client for device in scheduler.status().devices for client in device.clients]
    # It counts for the giver, as memory that can't move, and for nobody else.
    assert sorted(client.footprint_bytes // MIB for client in clients) == [600, 670]


def test_it_lives_as_long_as_it_is_open(served: Callable[[], Scheduler], start: StartSharing) -> None:
    """Freed by the giver it is still there for who has it open, and nobody can open it any more, nor after that."""
    served()
    giver, taker, late = start(), start(), start()
    base = giver.number(f"allocate({70 * MIB})")
    giver.do(f"device.fill({base + 65 * MIB}, 4.0, 64)")
    handle = giver.text(f"get({base})")
    mapped = taker.number(f"open_it('{handle}')")
    assert giver.do(f"error('cuMemFree', {base})") == "CUDA_SUCCESS"
    assert late.do(f"open_it('{handle}')") == "CUDA_ERROR_INVALID_HANDLE"
    assert taker.do(f"device.floats({mapped + 65 * MIB}, 64)") == [4.0] * 64
    again = giver.number(f"allocate({70 * MIB})")
    assert giver.text(f"get({again})") != handle
    giver.kill()
    assert taker.do(f"device.floats({mapped + 65 * MIB}, 64)") == [4.0] * 64
    assert taker.do(f"close({mapped})") == "CUDA_SUCCESS"
    assert taker.do(f"open_it('{handle}')") == "CUDA_ERROR_INVALID_HANDLE"
    assert "memory of another process can't be opened" in taker.kill()


def test_programs_that_ask_first(served: Callable[[], Scheduler], start: StartSharing) -> None:
    """Plain memory says that it can be given, as a driver's does; what was opened can't be given on."""
    served()
    giver, taker = start(), start()
    base = giver.number(f"allocate({3 * MIB})")
    assert giver.do(f"attribute('IS_LEGACY_CUDA_IPC_CAPABLE', {base})") == 1
    mapped = taker.number(f"open_it('{giver.text(f'get({base})')}')")
    assert taker.do(f"attribute('IS_LEGACY_CUDA_IPC_CAPABLE', {mapped})") == 0
    assert taker.do(f"error('cuIpcGetMemHandle', {mapped})") == "CUDA_ERROR_INVALID_VALUE"


@pytest.mark.parametrize("free", ["'cuMemFree', {}", "'cuMemFreeAsync', {}, 0"])
def test_it_ties_them_until_it_is_freed(served: Callable[[], Scheduler], start: StartSharing, free: str) -> None:
    """Who gave memory and who opened it are one gang, and that ends when it is freed."""
    scheduler = served()
    giver, taker = start(), start()
    base = giver.number(f"allocate({3 * MIB})")
    taker.number(f"open_it('{giver.text(f'get({base})')}')")

    def members() -> list[int]:
        clients = [client for device in scheduler.status().devices for client in device.clients]
        return [client.gang.members for client in clients if client.HasField("gang")]

    assert members() == [2, 2]
    assert giver.do(f"error({free.format(base)})") == "CUDA_SUCCESS"
    poll_until(lambda: members() == [1], "who gave it is by itself")


def test_who_gave_it_is_killed(served: Callable[[], Scheduler], start: StartSharing) -> None:
    """Who has it open keeps it; nobody else gets it."""
    served()
    giver, taker, late = start(), start(), start()
    base = giver.number(f"allocate({3 * MIB})")
    giver.do(f"device.fill({base}, 4.0, 64)")
    handle = giver.text(f"get({base})")
    mapped = taker.number(f"open_it('{handle}')")
    giver.kill()
    assert late.do(f"open_it('{handle}')") == "CUDA_ERROR_INVALID_HANDLE"
    assert taker.do(f"device.floats({mapped}, 64)") == [4.0] * 64


def test_what_is_no_handle(served: Callable[[], Scheduler], start: StartSharing) -> None:
    """The giver itself can't open it, nor can anybody open a guessed one; another driver's goes to the driver."""
    served()
    giver, taker = start(), start()
    handle = giver.text(f"get(allocate({3 * MIB}))")
    assert giver.do(f"open_it('{handle}')") == "CUDA_ERROR_INVALID_CONTEXT"
    guessed = handle[:16] + "00" * 32 + handle[80:]
    assert taker.do(f"open_it('{guessed}')") == "CUDA_ERROR_INVALID_HANDLE"
    elsewhere = handle[:96] + "77" * 16
    assert taker.do(f"open_it('{elsewhere}')") == "CUDA_ERROR_INVALID_HANDLE"
    assert taker.do(f"open_it('{handle}', 8)") == "CUDA_ERROR_INVALID_VALUE"
    drivers = "cuIpcOpenMemHandle"
    assert taker.do(f"error('{drivers}', handle_of('{'ab' * 64}'), 1)") == taker.do(
        f"error('{drivers}', handle_of('{'00' * 64}'), 1)"
    )
    larger = handle[:80] + (9 * MIB).to_bytes(8, "little").hex() + handle[96:]
    assert taker.do(f"open_it('{larger}')") == "CUDA_ERROR_INVALID_HANDLE"
    assert isinstance(taker.do(f"open_it('{handle}')"), int)


def test_the_other_device(served: Callable[[], Scheduler], start: StartSharing) -> None:
    """It is opened for the device of the current context, also when the memory is on another one."""
    served()
    giver, taker = start(0), start(1)
    base = giver.number(f"allocate({3 * MIB})")
    giver.do(f"device.fill({base}, 4.0, 64)")
    mapped = taker.number(f"open_it('{giver.text(f'get({base})')}')")
    taker.do(f"device.fill({mapped}, 8.0, 32)")
    assert taker.do("error('cuCtxSynchronize')") == "CUDA_SUCCESS"
    assert giver.do(f"device.floats({base}, 64)") == [8.0] * 32 + [4.0] * 32


def test_descriptors_do_not_pile_up(served: Callable[[], Scheduler], start: StartSharing) -> None:
    """Two hundred times opened and closed, nobody has a file more than before."""
    scheduler = served()
    giver, taker = start(), start()
    handle = giver.text(f"get(allocate({70 * MIB}))")

    def files() -> list[int]:
        own = len(list(Path(f"/proc/{scheduler.process.pid}/fd").iterdir()))
        return [giver.number("files()"), taker.number("files()"), own]

    assert taker.do(f"close(open_it('{handle}'))") == "CUDA_SUCCESS"
    before = files()
    assert taker.do(f"{{close(open_it('{handle}')) for _ in range(200)}}") == {"CUDA_SUCCESS"}
    poll_until(lambda: all(now <= then for now, then in zip(files(), before, strict=True)), "all are closed")


def test_a_child_has_none(served: Callable[[], Scheduler], start: StartSharing) -> None:
    """A forked child has given nothing and opened nothing, and what its parent has is as before."""
    served()
    giver, taker = start(), start()
    base = giver.number(f"allocate({3 * MIB})")
    handle = giver.text(f"get({base})")
    mapped = taker.number(f"open_it('{handle}')")
    assert taker.text(f"""fork("close({mapped})")""") != "'CUDA_SUCCESS'"
    assert giver.text("""fork("1")""") == "1"
    giver.do(f"device.fill({base}, 4.0, 64)")
    giver.do("call('cuCtxSynchronize')")
    assert taker.do(f"device.floats({mapped}, 64)") == [4.0] * 64
    assert taker.do(f"close({mapped})") == "CUDA_SUCCESS"


def test_another_user(served: Callable[[], Scheduler], start: StartSharing, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of another user gets nothing outside of containers, whatever it knows."""
    if os.getuid() or belonging_of(Peer(os.getpid(), 0, None)) != "user 0":
        pytest.skip("only root outside of containers can be somebody else")
    scheduler = served()
    handle = start().text(f"get(allocate({3 * MIB}))")
    monkeypatch.chdir(scheduler.run_dir.client_socket.parent)
    end = socket.socket(socket.AF_UNIX)
    os.seteuid(1000)
    try:
        end.connect(scheduler.run_dir.client_socket.name)
    finally:
        os.seteuid(0)
    stranger = scheduler.client(end).register(device_uuid=bytes.fromhex(handle[96:]))
    stranger.send(wire.OpenShared(1, bytes.fromhex(handle[16:80]), 0))
    assert "another user" in stranger.expect(wire.NotShared).text


def test_another_container(container: Path, served: Callable[[], Scheduler], start: StartSharing) -> None:
    """A process in another container, or in none, gets nothing; one in the same does."""
    served()
    giver, inside, outside = start(cgroup=container), start(cgroup=container), start()
    handle = giver.text(f"get(allocate({3 * MIB}))")
    assert outside.do(f"open_it('{handle}')") == "CUDA_ERROR_INVALID_HANDLE"
    assert "another container" in outside.kill()
    assert isinstance(inside.do(f"open_it('{handle}')"), int)


def test_a_scheduler_that_comes_again(served: Callable[[], Scheduler], start: StartSharing) -> None:
    """What is open stays open; who wants to open more waits for the next one, which knows whom to ask."""
    scheduler = served()
    giver, taker = start(), start()
    base = giver.number(f"allocate({3 * MIB})")
    giver.do(f"device.fill({base}, 4.0, 64)")
    giver.do("call('cuCtxSynchronize')")
    handle = giver.text(f"get({base})")
    mapped = taker.number(f"open_it('{handle}')")
    scheduler.kill()
    assert taker.number(f"open_it('{handle}')") == mapped
    assert [taker.do(f"close({mapped})") for _ in range(2)] == ["CUDA_SUCCESS"] * 2
    taker.begin(f"open_it('{handle}')")
    scheduler = served()
    again = taker.answer()
    assert taker.do(f"close({again})") == "CUDA_SUCCESS"
    stop(giver.process.pid)
    taker.begin(f"open_it('{handle}')")
    poll_until(lambda: asleep(taker.process.pid, taker.process.pid), "it waits")
    scheduler.kill()
    giver.process.send_signal(signal.SIGCONT)
    served()
    assert isinstance(taker.answer(), int)


def test_who_gave_it_does_not_answer(served: Callable[[], Scheduler], start: StartSharing) -> None:
    """Who waits is told after some seconds; an answer that comes late hurts nobody."""
    scheduler = served()
    giver, taker = start(), start()
    handle = giver.text(f"get(allocate({3 * MIB}))")
    assert taker.do(f"close(open_it('{handle}'))") == "CUDA_SUCCESS"
    stop(giver.process.pid)
    assert taker.do(f"open_it('{handle}')") == "CUDA_ERROR_INVALID_HANDLE"
    giver.process.send_signal(signal.SIGCONT)
    mapped = taker.number(f"open_it('{handle}')")
    assert taker.do(f"close({mapped})") == "CUDA_SUCCESS"
    assert not [line for line in scheduler.log() if line["event"] == "peer disconnected"]
    assert "does not answer" in taker.kill()
