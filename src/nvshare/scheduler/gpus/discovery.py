"""Finds the GPUs when the scheduler starts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from nvshare.log import Log
from nvshare.scheduler.gpus import queries
from nvshare.scheduler.gpus.nvml_watch import NvmlWatch
from nvshare.scheduler.gpus.queries import Discovery, Gpu

_NVML_SECONDS = 10.0


async def discover(nvml: NvmlWatch, log: Log) -> Mapping[bytes, Gpu]:
    """Every GPU by the bytes by which clients name it; none where there is no NVML, or where it does not answer."""
    answer: asyncio.Future[Discovery] = asyncio.get_running_loop().create_future()
    nvml.submit(queries.discover, lambda found: None if answer.done() else answer.set_result(found))
    try:
        found = await asyncio.wait_for(answer, _NVML_SECONDS)
    except TimeoutError:
        log.warning("NVML does not answer; memory of other processes is not measured", seconds=_NVML_SECONDS)
        return {}
    nvml.heard(found)
    return queries.by_bytes(found.gpus)
