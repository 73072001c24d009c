"""How fast Kubernetes places claims of GPU memory on many nodes, and how much memory nobody can have in the end.

    PYTHONPATH=src:. python -m bench.dra.many_nodes [--nodes N] [--claims N] [--seconds S] [--rate N] ...

from the root of the project, with etcd, kube-apiserver and kube-scheduler in PATH. They are real; the nodes are objects
without kubelets, so pods are bound and never run. What nvshare says of the nodes is what the driver's own modules make
of a scheduler's status. The same pods are placed in turn with claims of memory and with claims of whole devices, of
which there are then as many as it takes. Then fewer nodes are filled, until no pending claim fits.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
from collections.abc import Iterator
from typing import Final

from bench.dra import objects
from bench.dra.filling import Filled, filled
from bench.dra.objects import GIB
from bench.dra.packing import Left
from bench.dra.speed import Speed, of_memory, of_whole_devices

_SEED: Final = 1
_PARTS: Final = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--claims", type=int, default=10_000, help="as many pods, each with a claim")
    parser.add_argument("--seconds", type=float, default=240.0, help="how long pods are placed at most, each time")
    parser.add_argument("--rounds", type=int, default=1, help="how often both are placed, in turn")
    parser.add_argument("--rate", type=int, default=5000, help="questions a second that the scheduler may ask")
    parser.add_argument("--virtual-devices", type=int, default=10, help="shares of a GPU")
    parser.add_argument("--filled-nodes", type=int, default=30)
    parser.add_argument("--filling-claims", type=int, default=1500)
    parser.add_argument("--still", type=float, default=60.0, help="seconds for which nothing changes")
    asyncio.run(measure(parser.parse_args()))


async def measure(arguments: argparse.Namespace) -> None:
    """Shows each figure when it is known. SIGTERM ends it in order: the programs that it started end, too."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    dice = random.Random(_SEED)
    print("| what | measured |\n|---|---|", flush=True)
    if arguments.claims:
        made = objects.nodes(arguments.nodes, arguments.virtual_devices, dice)
        sizes = dice.choices(objects.SIZES, k=arguments.claims)
        for _ in range(arguments.rounds):
            memory = await of_memory(made, sizes, arguments.rate, arguments.seconds)
            _show(_alone("memory", memory))
            whole = await of_whole_devices(made, sizes, arguments.rate, arguments.seconds)
            _show(_alone("whole devices", whole))
            _show(_compared(memory, whole))
    if arguments.filling_claims:
        made = objects.nodes(arguments.filled_nodes, arguments.virtual_devices, dice)
        sizes = dice.choices(objects.SIZES, k=arguments.filling_claims)
        _show(_filling(await filled(made, sizes, arguments.rate, arguments.seconds, arguments.still)))


def _show(rows: Iterator[tuple[str, str]]) -> None:
    for what, measured in rows:
        print(f"| {what} | {measured} |", flush=True)


def _alone(name: str, speed: Speed) -> Iterator[tuple[str, str]]:
    yield (
        f"claims of {name}, {len(speed.slice_bytes)} nodes, {speed.devices} devices: pods bound; a second, by quarters",
        f"{speed.placed}; {_rates(speed, speed.placed)}",
    )
    yield "processor time a pod, scheduler and API server", _processors(speed, speed.placed)
    yield "size of a slice, smallest and largest", f"{min(speed.slice_bytes)}, {max(speed.slice_bytes)} bytes"


def _compared(memory: Speed, whole: Speed) -> Iterator[tuple[str, str]]:
    last = min(memory.placed, whole.placed)
    for name, speed in ("memory", memory), ("whole devices", whole):
        yield f"the first {last}, {name}", f"{_rates(speed, last)}; {_processors(speed, last)}"
    yield "memory / whole devices, pods a second", f"{memory.rate(0, last) / whole.rate(0, last):.3f}"


def _rates(speed: Speed, last: int) -> str:
    """Pods a second, of this many, and of each quarter of them."""
    parts = (speed.rate(last * part // _PARTS, last * (part + 1) // _PARTS) for part in range(_PARTS))
    return f"{speed.rate(0, last):.1f}; {', '.join(f'{part:.1f}' for part in parts)}"


def _processors(speed: Speed, last: int) -> str:
    return f"{speed.scheduler_seconds(last) * 1e3:.1f} ms, {speed.api_seconds(last) * 1e3:.1f} ms"


def _filling(found: Filled) -> Iterator[tuple[str, str]]:
    seconds = found.looks[-1].at - found.looks[0].at
    yield "filled: GPUs, their memory; seconds", f"{found.gpus}, {found.memory_bytes / GIB:.0f} GiB; {seconds:.0f}"
    for name, left in ("Kubernetes", found.left), ("best fit, offline", found.best):
        yield f"placed, pending; memory that no pending claim fits into: {name}", _left(left, found.memory_bytes)
    yield (
        "writes of slices: until all were there; since then, with nothing changed",
        f"{found.first_writes}; {found.more_writes} in {found.seconds:.0f} s",
    )


def _left(left: Left, memory_bytes: int) -> str:
    pending = ", ".join(f"{left.pending.count(size * GIB)} of {size} GiB" for size in objects.SIZES)
    return (
        f"{left.placed}, {pending}; {left.unusable_bytes / GIB:.0f} GiB ({left.unusable_bytes / memory_bytes:.1%}), "
        f"{left.without_share_bytes / GIB:.0f} of them where no share is left"
    )


if __name__ == "__main__":
    main()
