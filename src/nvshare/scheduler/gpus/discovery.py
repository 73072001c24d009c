"""Finds the GPUs when the scheduler starts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from nvshare.log import Log
from nvshare.scheduler.gpus import queries
from nvshare.scheduler.gpus.queries import Gpu
from nvshare.scheduler.worker import Worker

_NVML_SECONDS = 10.0


async def discover(worker: Worker, log: Log) -> Mapping[bytes, Gpu]:
    """Every GPU by the bytes by which clients name it; none where there is no NVML, or where it does not answer."""
    answer: asyncio.Future[tuple[Gpu, ...] | None] = asyncio.get_running_loop().create_future()
    worker.submit(queries.discover, lambda found: None if answer.done() else answer.set_result(found))
    try:
        found = await asyncio.wait_for(answer, _NVML_SECONDS)
    except TimeoutError:
        log.warning("NVML does not answer; memory of other processes is not measured", seconds=_NVML_SECONDS)
        return {}
    if found is None:
        log.info("no NVML here; memory of other processes is not measured")
        return {}
    return queries.by_bytes(found)
