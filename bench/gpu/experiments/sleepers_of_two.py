"""Experiments with programs on two GPUs that sleep: one process with data on both, and two ranks of a job with NCCL."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Sequence

from bench.gpu.experiments.mixes import digests_of, gang
from bench.gpu.experiments.sleepers import ROUNDS, request
from bench.gpu.running.place import Place, Scheduler
from bench.gpu.running.program import Program
from bench.gpu.running.rows import Table
from nvshare.ctl.errors import CommandError

STEPS = 100
PATIENCE_SECONDS = 15.0
NUMBERS = re.compile(r"pid:? ?\d+:? ?")
WAYS = {
    "as NCCL chooses": {},
    "without peer access": {"NCCL_P2P_DISABLE": "1"},
    "over sockets": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"},
}
"""How ranks send, by what NCCL is told; it is told to use no multicast in all of them."""


def pair(place: Place, table: Table) -> None:
    """One process that has its data on two devices sleeps on both, and is asked again and again."""
    size = 4 * place.unit
    scheduler = place.scheduler(2)
    job = place.ready("pair", "pair.py", scheduler.clients)
    job.ask("hold", size=size)
    request(job)
    digest = job.ask("digest")["digest"]
    seconds = []
    for _ in range(ROUNDS):
        scheduler.put_to_sleep(job.process.pid)
        seconds.append(request(job))
    right = job.ask("digest")["digest"] == digest
    table.row(
        "pair",
        f"a process with {size / 2**30:.4g} GiB on each of two devices, to the end of its kernels",
        f"{statistics.median(seconds):.3f} s",
        "",
        f"most {max(seconds):.3f} s of {len(seconds)}; contents {'equal' if right else 'DIFFER'}",
        {"seconds": seconds, "right": right},
    )


def ranks(place: Place, table: Table) -> None:
    """Two ranks that are told to sleep between their steps: whether they do, and that they compute the same."""
    reference = place.scheduler(2, "off")
    reference.clients["NCCL_NVLS_ENABLE"] = "0"
    expected = digests_of(gang(place, reference, "reference"), ROUNDS * STEPS)
    place.stack.close()
    for way, variables in WAYS.items():
        scheduler = place.scheduler(2)
        scheduler.clients.update(variables, NCCL_NVLS_ENABLE="0")
        job = gang(place, scheduler, "job")
        slept, reasons = 0, set[str]()
        for _ in range(ROUNDS):
            found = digests_of(job, STEPS)
            asleep, said = _try_to_sleep(scheduler, job)
            slept += asleep
            reasons |= said
        place.stack.close()
        table.row(
            "ranks",
            f"two ranks with NCCL, {way}",
            f"{slept} of {2 * ROUNDS} times asleep",
            "",
            f"results {'equal' if found == expected else 'DIFFER'}; " + ("; ".join(sorted(reasons)) or "no reason"),
            {"slept": slept, "reasons": sorted(reasons), "right": found == expected},
        )


def _try_to_sleep(scheduler: Scheduler, job: Sequence[Program]) -> tuple[int, set[str]]:
    """How many of the ranks sleep a while after they were told to, and why others don't."""
    pids = [rank.process.pid for rank in job]
    reasons = set[str]()
    for pid in pids:
        try:
            scheduler.ask_to_sleep(pid)
        except CommandError as error:
            reasons.add(NUMBERS.sub("", str(error)))
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        clients = [client for device in scheduler.status().devices for client in device.clients if client.pid in pids]
        asleep = {client.pid for client in clients if client.state == "asleep"}
        if len(asleep) == len(pids):
            break
        time.sleep(0.05)
    reasons |= {client.awake_reason for client in clients if client.pid not in asleep and client.awake_reason}
    return len(asleep), reasons
