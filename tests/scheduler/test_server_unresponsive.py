"""A real scheduler and a holder that does not give the lock back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.client_process import ClientProcess
from tests.scheduler.wire_client import GIB, TIMEOUT_SECONDS, ClosedError, Scheduler

Serve = Callable[..., Scheduler]

REPOSITORY = Path(__file__).parents[2]
HOLD = """
import sys
from pathlib import Path
from tests.scheduler.wire_client import GIB, WireClient
client = WireClient(Path(sys.argv[1])).register(footprint_bytes=10 * GIB)
client.lock()
print(client.client_id, flush=True)
sys.stdin.read()
"""


@contextmanager
def stubborn(scheduler: Scheduler) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that holds the lock with 10 of 16 GiB and answers nothing, and its client number."""
    command = [sys.executable, "-c", HOLD, str(scheduler.run_dir.client_socket)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def test_unresponsive_holder_is_reported(serve: Serve) -> None:
    """A holder that does not answer DROP_LOCK within the grace time is shown and logged as such, once."""
    scheduler = serve("--policy", "exclusive", "--quantum", "0.01", "--grace", "0.2")
    holder, waiter = scheduler.client().register(command="stubborn"), scheduler.client().register()
    grant = holder.lock()
    waiter.send(wire.ReqLock())
    poll_until(lambda: scheduler.states()[holder.client_id] == "unresponsive", "it is reported")
    [line] = scheduler.logged("holder does not give the lock back")
    assert line["client"] == holder.client_id
    holder.send(wire.LockReleased(grant))
    waiter.expect(wire.LockOk)
    assert scheduler.states()[holder.client_id] == "idle"


def test_unresponsive_holder_is_killed(serve: Serve) -> None:
    """Where the operator chose so, and with a line that says who it was; the waiter comes in at once."""
    scheduler = serve("--policy", "exclusive", "--quantum", "0.01", "--grace", "0.2", "--unresponsive", "kill")
    with stubborn(scheduler) as (process, number):
        waiter = scheduler.client().register()
        waiter.lock()
        assert process.wait(TIMEOUT_SECONDS) == -9
    [line] = scheduler.logged("killed a holder that kept others waiting")
    assert (line["client"], line["pid"], "pod" in line) == (number, process.pid, False)
    assert "wire_client" in str(line["command"])


@contextmanager
def evading(scheduler: Scheduler, seconds: float) -> Iterator[tuple[ClientProcess, list[int]]]:
    """A process that held before another one waited, closes after so long and comes back as a holder, 40 times.

    Until the other one has the lock. What comes out has an element for each time.
    """
    with ClientProcess() as evader:
        holder = evader.connect(scheduler).register()
        grant = holder.lock()
        waiter = scheduler.client().register(state=wire.State.WAITING)
        closed: list[int] = []
        while scheduler.states()[waiter.client_id] == "waiting" and len(closed) < 40:
            with suppress(TimeoutError, ClosedError):
                while True:
                    holder.receive(seconds)
            holder.close()
            closed.append(holder.client_id)
            with suppress(OSError, ClosedError, IndexError):
                holder = evader.connect(scheduler).register(state=wire.State.HOLDING, grant=grant)
        yield evader, closed


def test_who_closes_and_comes_back_is_killed(serve: Serve) -> None:
    """As one that stays: neither its quantum nor its time to answer begins anew."""
    scheduler = serve("--policy", "exclusive", "--quantum", "0.5", "--grace", "1", "--unresponsive", "kill")
    with evading(scheduler, 0.6) as (evader, closed):
        assert 1 < len(closed) < 10
        assert evader.process.wait(TIMEOUT_SECONDS) == -9


def test_who_closes_all_the_time_is_not_awaited_for_ever(serve: Serve) -> None:
    """A few times only, with a line that says so; then the other one has the lock."""
    scheduler = serve("--policy", "exclusive", "--quantum", "1000")
    with evading(scheduler, 0.001) as (evader, closed):
        assert 1 < len(closed) < 10
    [line] = scheduler.logged("a holder loses its connection again and again; if it still runs, others run beside it")
    assert line["pid"] == evader.process.pid


def test_whoever_fits_beside_an_unresponsive_holder_runs(serve: Serve) -> None:
    """It is not killed by default: who is too large waits, who fits is served, also after the other."""
    scheduler = serve("--quantum", "0.01", "--grace", "0.2")
    with stubborn(scheduler) as (_process, number):
        large = scheduler.client().register(backend=wire.Backend.MANAGED, footprint_bytes=12 * GIB)
        large.send(wire.ReqLock())
        poll_until(lambda: scheduler.states()[number] == "unresponsive", "it is reported")
        scheduler.client().register(backend=wire.Backend.MANAGED, footprint_bytes=1 * GIB).lock()
        assert large.has_nothing()
    large.expect(wire.LockOk)


def test_grace_that_is_not_allowed(serve: Serve) -> None:
    """The message says what is."""
    command = [sys.executable, "-m", "nvshare.scheduler", "--grace", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    assert ended.returncode == 2
    assert "from 0.1 to 86400" in ended.stderr
