"""What the scheduler before this one left behind: who held what, and whose memory swaps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nvshare.device_uuid import device_bytes
from nvshare.log import Log
from nvshare.paths import RunDir
from nvshare.scheduler.core.events import HolderRecorded, ResidentRecorded
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.gpus import names
from nvshare.scheduler.gpus.queries import Gpu
from nvshare.scheduler.recovery.allowance import Allowances
from nvshare.scheduler.recovery.annotated import Annotated
from nvshare.scheduler.recovery.awaited import Awaited
from nvshare.scheduler.recovery.contexts import Contexts
from nvshare.scheduler.recovery.record import Record, Recorded
from nvshare.scheduler.recovery.resource_claims import ResourceClaims
from nvshare.scheduler.run_dir import RunDirError


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a run directory."""

    holders: Record
    swappers: Record
    """Processes with memory that swaps."""
    annotated: Annotated
    resource_claims: ResourceClaims
    contexts: Contexts


def open_records(run_dir: RunDir, log: Log) -> Records:
    """Reads what is there; RunDirError if there can't be such files."""
    return Records(
        _open(run_dir.holder_record, "holders", log),
        _open(run_dir.swapper_record, "processes whose memory swaps", log),
        Annotated(run_dir.annotated, log),
        ResourceClaims(run_dir.resource_claims, log),
        Contexts(run_dir.contexts, log),
    )


def _open(path: Path, of: str, log: Log) -> Record:
    try:
        return Record(path, of, log)
    except OSError as error:
        raise RunDirError(
            f"cannot write {path}: {error.strerror}; make room there or choose another --run-dir"
        ) from error


def await_holders(
    record: Record, found: Mapping[bytes, Gpu], dispatcher: Dispatcher, loop: asyncio.AbstractEventLoop, log: Log
) -> Awaited:
    """Tells the core of those that are recorded, each under its device's name of today; they are awaited."""
    former = _tell(record, lambda device, grant: HolderRecorded(device, grant), found, dispatcher, log)
    allowances = Allowances(lambda number: dispatcher.clients[number].process)
    dispatcher.observers.append(allowances.observe)
    return Awaited(former, loop, log, allowances, dispatcher.holder_died)


def tell_of_swappers(record: Record, found: Mapping[bytes, Gpu], dispatcher: Dispatcher, log: Log) -> list[Recorded]:
    """Tells the core of processes with memory that swaps; returns them, each under its device's name of today."""
    return _tell(record, lambda device, number: ResidentRecorded(device, number), found, dispatcher, log)


def _tell(
    record: Record,
    event: Callable[[str, int], HolderRecorded | ResidentRecorded],
    found: Mapping[bytes, Gpu],
    dispatcher: Dispatcher,
    log: Log,
) -> list[Recorded]:
    former = []
    for recorded in record.found:
        try:
            device = _name_of_today(recorded.device, found, dispatcher)
        except ValueError as error:
            log.warning("a recorded process is not waited for", device=recorded.device, reason=str(error))
            record.erase(recorded.number)
            continue
        dispatcher.feed(event(device, recorded.number))
        former.append(replace(recorded, device=device))
    return former


def _name_of_today(recorded: str, found: Mapping[bytes, Gpu], dispatcher: Dispatcher) -> str:
    """The name of a device, which is made known; ValueError if the record names none."""
    device_uuid = device_bytes(recorded)
    gpu = found.get(device_uuid)
    device = names.gpu_name(device_uuid) if gpu is None else gpu.uuid
    dispatcher.make_known(device, 0 if gpu is None else gpu.total_bytes)
    return device
