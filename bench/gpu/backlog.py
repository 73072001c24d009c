"""What others feel of a program's backlog: how long a drain takes, and what a neighbour's bursts take.

    PYTHONPATH=src:. python bench/gpu/backlog.py [--only drain|burst|wait-value] [--torch] [--simulate]

Prints a table. Run it from the root of the project, after ``make libs``. Needs one NVIDIA GPU, PyTorch for ``--torch``;
or neither with ``--simulate``.

drain       the time from DROP_LOCK to LOCK_RELEASED, as a scheduler sees it that does nothing else, of a program that
            launches kernels of some length without an end
burst       what 100 ms of work a second take beside a program that saturates the GPU, in turns, against alone
wait-value  the time of a round of 300 launches behind a wait for a number that the host writes after them
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.gpu.run import scheduler
from bench.gpu.running.cuda import Cuda
from nvshare import paths, shim, simgpu
from nvshare.protocol import wire
from tests.shim.lock_server import LockServer, Peer

MILLISECOND = 1_000_000
BURST_SECONDS = 0.1
ROUNDS = 20
"""Of a program that measures rounds."""


def percentile(values: list[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def row(what: str, seconds: list[float]) -> None:
    """Prints median, 95th percentile and largest."""
    shown = (percentile(seconds, 0.5), percentile(seconds, 0.95), max(seconds))
    print(f"| {what} | {' / '.join(f'{1000 * each:.1f}' for each in shown)} | {len(seconds)} |", flush=True)


# What the programs do.


def matmul() -> tuple[Callable[[], None], Callable[[], None]]:
    """One 8192 x 8192 bf16 product (1.6 ms on an H200), and waiting for all of them."""
    import torch

    factor = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(factor)
    return lambda: torch.matmul(factor, factor, out=out), torch.cuda.synchronize


def spin(kernel_ns: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """One kernel of that time, and waiting for all of them."""
    cuda = Cuda()
    return lambda: cuda.spin(kernel_ns), cuda.synchronize


def saturate(launch: Callable[[], None]) -> None:
    """Launches without an end."""
    while True:
        launch()


def bursts(launch: Callable[[], None], synchronize: Callable[[], None]) -> None:
    """Prints what each burst took; one begins every second."""
    launch()
    synchronize()
    begin = time.perf_counter()
    for _ in range(20):
        launch()
    synchronize()
    count = max(1, round(BURST_SECONDS * 20 / (time.perf_counter() - begin)))
    for _ in range(ROUNDS):
        time.sleep(1 - BURST_SECONDS + random.uniform(-0.05, 0.05))
        begin = time.perf_counter()
        for _ in range(count):
            launch()
        synchronize()
        print(time.perf_counter() - begin, flush=True)


def wait_value() -> None:
    """Prints what each round took."""
    cuda = Cuda()
    number, address = cuda.flag()
    for count in range(1, ROUNDS + 1):
        begin = time.perf_counter()
        cuda.wait_for(address, count)
        for _ in range(300):
            cuda.spin(1000)
        number.value = count
        cuda.synchronize()
        print(time.perf_counter() - begin, flush=True)


def play(role: str, kernel_ns: int, torch: bool) -> None:
    """The program that another one started."""
    if role == "wait-value":
        wait_value()
        return
    launch, synchronize = matmul() if torch else spin(kernel_ns)
    if role == "saturate":
        saturate(launch)
    else:
        bursts(launch, synchronize)


# The experiments.


def start(environment: dict[str, str], role: str, *options: str) -> subprocess.Popen[str]:
    """Starts this file as a program."""
    command = [sys.executable, __file__, "--role", role, *options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def numbers(environment: dict[str, str], role: str, *options: str) -> list[float]:
    """What a program printed; RuntimeError when it failed."""
    process = start(environment, role, *options)
    out, _ = process.communicate(timeout=300)
    if process.returncode != 0:
        raise RuntimeError(f"{role} ended with {process.returncode}")
    return [float(line) for line in out.split()]


@contextmanager
def running(environment: dict[str, str], role: str, *options: str) -> Iterator[None]:
    """Such a program, until the end of the block."""
    process = start(environment, role, *options)
    try:
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


@contextmanager
def lock_server(environment: dict[str, str]) -> Iterator[tuple[LockServer, dict[str, str]]]:
    """A scheduler that does what we say, and the environment of its clients."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = paths.RunDir(Path(folder))
        server = LockServer(run_dir.client_socket)
        yield server, environment | shim.preload_environment(run_dir, environment) | {paths.MEMORY: "native"}


def take_back(peer: Peer) -> float:
    """Seconds from DROP_LOCK to LOCK_RELEASED; the program has the lock again afterwards."""
    peer.connection.settimeout(150)
    begin = time.perf_counter()
    peer.revoke()
    while not isinstance(peer.receive(), wire.LockReleased):
        pass
    taken = time.perf_counter() - begin
    peer.expect(wire.ReqLock)
    peer.grant()
    return taken


def drain(environment: dict[str, str], kernel_ms: int) -> None:
    """One row for a program that nobody had to wait for so far, and one for when somebody had a second ago."""
    fresh, waited = [], []
    options = ("--kernel-ns", str(kernel_ms * MILLISECOND))
    for _ in range(3):
        with lock_server(environment) as (server, clients), running(clients, "saturate", *options):
            peer = server.accept()
            peer.expect_wanting()
            peer.grant()
            time.sleep(3)
            fresh.append(take_back(peer))
            for _ in range(ROUNDS // 3 + 1):
                time.sleep(random.uniform(0.8, 1.2))
                waited.append(take_back(peer))
    row(f"drain behind kernels of {kernel_ms} ms, nobody waited before", fresh)
    row(f"drain behind kernels of {kernel_ms} ms, one that has to share", waited)


def burst(environment: dict[str, str], quantum: float, torch: bool) -> None:
    """Alone, beside the saturating program without nvshare, and with it."""
    kernel = ("--kernel-ns", str(1_600_000), *(["--torch"] if torch else []))
    alone = numbers(environment, "bursts", *kernel)
    row("bursts alone", alone)
    with running(environment, "saturate", *kernel):
        beside = numbers(environment, "bursts", *kernel)
    row("bursts beside a saturating program, without nvshare", beside)
    with scheduler("exclusive", quantum, environment) as clients, running(clients, "saturate", *kernel):
        time.sleep(5)
        turns = numbers(clients, "bursts", *kernel)
    ratio = percentile(turns, 0.95) / statistics.median(alone)
    row(f"bursts in turns with it (quantum {quantum:g} s), p95 is {ratio:.2f} x alone", turns)


def wait_value_rounds(environment: dict[str, str]) -> None:
    """Without nvshare, and with it."""
    bare = numbers(environment, "wait-value")
    with scheduler("exclusive", 30, environment) as clients:
        shared = numbers(clients, "wait-value")
    row("300 launches behind a wait, without nvshare", bare)
    row(f"the same with it; first round {1000 * shared[0]:.1f}", shared)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["drain", "burst", "wait-value"])
    parser.add_argument("--torch", action="store_true", help="bursts and their neighbour are matrix products")
    parser.add_argument("--quantum", type=float, default=0.25, help="seconds of a turn beside the bursts")
    parser.add_argument("--simulate", action="store_true", help="on a simulated device")
    parser.add_argument("--role", choices=["saturate", "bursts", "wait-value"], help=argparse.SUPPRESS)
    parser.add_argument("--kernel-ns", type=int, default=MILLISECOND, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        play(options.role, options.kernel_ns, options.torch)
        return
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        if options.simulate:
            environment |= simgpu.environment(Path(folder), base=environment)
        print("| what | milliseconds: p50 / p95 / most | of |\n|---|---|---|", flush=True)
        if options.only in (None, "drain"):
            for kernel_ms in (1, 20, 100):
                drain(environment, kernel_ms)
        if options.only in (None, "burst"):
            burst(environment, options.quantum, options.torch)
        if options.only in (None, "wait-value"):
            wait_value_rounds(environment)


if __name__ == "__main__":
    main()
