"""The scheduler's metrics and probes over HTTP."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack

import psutil
import pytest

from nvshare.paths import RunDir
from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.api.pages import figures, get
from tests.scheduler.wire_client import DEVICE, GIB, TIMEOUT_SECONDS, Scheduler

Serve = Callable[..., Scheduler]
GPU = "GPU-6e767368-6172-6500-0000-000000000001"
SERVED = "--metrics-address=127.0.0.1:0"


def test_a_device_in_figures(serve: Serve) -> None:
    """Holders, waiters, memory, turns: what status shows, and sums that outlive the clients."""
    scheduler = serve(SERVED, "--policy", "exclusive", "--quantum", "0.1", "--burst", "0")
    first, second = (scheduler.client().register(footprint_bytes=size * GIB) for size in (1, 2))
    grant = first.lock()
    second.send(wire.ReqLock())
    assert first.expect(wire.Waiters).waiters == 1
    assert first.expect(wire.DropLock).grant == grant
    expected = {
        f'nvshare_holders{{gpu="{GPU}"}}': 1,
        f'nvshare_waiters{{gpu="{GPU}"}}': 1,
        f'nvshare_unresponsive_holders{{gpu="{GPU}"}}': 0,
        f'nvshare_clients{{gpu="{GPU}",state="holding"}}': 0,
        f'nvshare_clients{{gpu="{GPU}",state="leaving"}}': 1,
        f'nvshare_clients{{gpu="{GPU}",state="waiting"}}': 1,
        f'nvshare_clients{{gpu="{GPU}",state="idle"}}': 0,
        f'nvshare_footprint_bytes{{gpu="{GPU}"}}': 3 * GIB,
        f'nvshare_pinned_bytes{{gpu="{GPU}"}}': 1280 << 20,
        f'nvshare_foreign_bytes{{gpu="{GPU}"}}': 0,
        f'nvshare_total_bytes{{gpu="{GPU}"}}': 16 * GIB,
        f'nvshare_quantum_seconds{{gpu="{GPU}"}}': 0.1,
        f'nvshare_policy{{gpu="{GPU}",policy="exclusive"}}': 1,
        f'nvshare_policy{{gpu="{GPU}",policy="auto"}}': 0,
        f'nvshare_grants_total{{gpu="{GPU}"}}': 1,
        f'nvshare_revokes_total{{gpu="{GPU}"}}': 1,
        f'nvshare_allocations_without_client{{gpu="{GPU}"}}': 0,
        "nvshare_scheduler_connections": 2,
    }
    poll_until(lambda: expected.items() <= figures(scheduler).items(), "the figures are right", TIMEOUT_SECONDS)
    seen = figures(scheduler)
    held, waited = f'nvshare_held_seconds_total{{gpu="{GPU}"}}', f'nvshare_waited_seconds_total{{gpu="{GPU}"}}'
    assert seen[held] >= 0.05
    assert 0 < seen[waited] <= seen[held]
    assert seen["process_resident_memory_bytes"] > 0
    first.close()
    second.close()
    poll_until(lambda: figures(scheduler)["nvshare_scheduler_connections"] == 0, "both are gone", TIMEOUT_SECONDS)
    gone = figures(scheduler)
    assert gone[held] >= seen[held]
    assert gone[waited] >= seen[waited]
    assert gone[f'nvshare_holders{{gpu="{GPU}"}}'] == 0


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "version"),
        (wire.encode(wire.ReqLock()), "protocol"),
        (wire.encode(wire.ReqLock())[:7], "half-frame"),
    ],
)
def test_peers_that_were_wrong(serve: Serve, sent: bytes, reason: str) -> None:
    """Each is counted once, by its kind; the other kinds are there with 0."""
    scheduler = serve(SERVED)
    peer = scheduler.client()
    peer.raw.send(sent)
    peer.raw.socket.shutdown(socket.SHUT_WR)
    peer.raw.wait_closed()
    drops = {
        name: value
        for name, value in figures(scheduler).items()
        if name.startswith("nvshare_scheduler_dropped_connections_total")
    }
    assert len(drops) > 1
    assert {name: value for name, value in drops.items() if value} == {
        f'nvshare_scheduler_dropped_connections_total{{reason="{reason}"}}': 1
    }


def test_probes(serve: Serve) -> None:
    """Both are well, and leave nothing behind; without its socket a scheduler is healthy and not ready."""
    scheduler = serve(SERVED)
    assert get(scheduler, "/healthz") == (200, "ok\n")
    assert get(scheduler, "/readyz") == (200, "ok\n")
    poll_until(lambda: figures(scheduler)["nvshare_scheduler_connections"] == 0, "the probe hung up", TIMEOUT_SECONDS)
    scheduler.client().register()
    scheduler.logged("client registered")
    assert not [line for line in scheduler.log() if line["level"] == "warning"]
    scheduler.run_dir.client_socket.unlink()
    assert get(scheduler, "/healthz") == (200, "ok\n")
    assert get(scheduler, "/readyz") == (503, f"{scheduler.run_dir.client_socket}: No such file or directory\n")


def test_many_scrapes_do_not_hold_up_the_lock(serve: Serve) -> None:
    """While eight scrape as fast as they can, the lock changes hands as usual."""
    scheduler = serve(SERVED)
    client = scheduler.client().register(device_uuid=DEVICE)
    enough = threading.Event()
    scraped = threading.Semaphore(0)

    def scrape() -> None:
        while not enough.is_set():
            get(scheduler, "/metrics")
            scraped.release()

    threads = [threading.Thread(target=scrape) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            assert scraped.acquire(timeout=TIMEOUT_SECONDS)
            client.send(wire.LockReleased(client.lock()))
    finally:
        enough.set()
        for thread in threads:
            thread.join()
    grants = f'nvshare_grants_total{{gpu="{GPU}"}}'
    poll_until(lambda: figures(scheduler)[grants] == 20, "a new snapshot is taken", TIMEOUT_SECONDS)


def test_peers_that_say_nothing(serve: Serve) -> None:
    """Very many connections that ask for no page take no threads and few descriptors; a page is served beside them."""
    scheduler = serve(SERVED, descriptors=256)
    (line,) = scheduler.logged("metrics")
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", int(str(line["port"])))))
        assert get(scheduler, "/readyz") == (200, "ok\n")
        process = psutil.Process(scheduler.process.pid)
        assert process.num_threads() < 50
        assert len(process.net_connections("tcp")) <= 1 + 48
        client = scheduler.client().register()
        client.lock()
    scheduler.logged("client registered")
    assert not [line for line in scheduler.log() if line["level"] != "info"]


def test_it_ends_while_it_is_asked(serve: Serve) -> None:
    """An open connection to the pages does not keep the scheduler from ending."""
    scheduler = serve(SERVED)
    (line,) = scheduler.logged("metrics")
    with socket.create_connection(("127.0.0.1", int(str(line["port"])))):
        assert scheduler.terminate() == 0


def refused(run_dir: RunDir, address: str) -> subprocess.CompletedProcess[str]:
    """A scheduler that can't start."""
    options = ["--run-dir", str(run_dir.root), "--metrics-address", address]
    command = [sys.executable, "-m", "nvshare.scheduler", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)


def test_taken_address(run_dir: RunDir) -> None:
    """One line with the address and the remedy, and nothing is left in the run directory that says it runs."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = refused(run_dir, address)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"nvshare-scheduler: {address}: Address already in use: choose another with --metrics-address"
    )
    assert not run_dir.pid_file.exists()


@pytest.mark.parametrize("address", ["9402", "host:70000", "::1:9402"])
def test_wrong_address(run_dir: RunDir, address: str) -> None:
    """What is not HOST:PORT is named, with what is."""
    done = refused(run_dir, address)
    assert done.returncode == 2
    assert address in done.stderr
    assert "HOST:PORT" in done.stderr
