"""What the scheduler before this one left behind: who held what when it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nvshare.log import Log
from nvshare.paths import RunDir
from nvshare.scheduler.core.events import HolderRecorded
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.gpus import names
from nvshare.scheduler.gpus.queries import Gpu
from nvshare.scheduler.recovery.record import Holder, HolderRecord
from nvshare.scheduler.run_dir import RunDirError


def open_record(run_dir: RunDir, log: Log) -> HolderRecord:
    """The record of holders; RunDirError if there can't be one."""
    try:
        return HolderRecord(run_dir.holder_record, log)
    except OSError as error:
        raise RunDirError(
            f"cannot write {run_dir.holder_record}: {error.strerror}; make room there or choose another --run-dir"
        ) from error


def holders(record: HolderRecord, found: Mapping[bytes, Gpu], dispatcher: Dispatcher, log: Log) -> list[Holder]:
    """Those that are recorded, each under its device's name of today; the core is told of them."""
    former = []
    for recorded in record.found:
        try:
            device = _name_of_today(recorded.device, found, dispatcher)
        except ValueError as error:
            log.warning("a recorded holder is not waited for", device=recorded.device, reason=str(error))
            record.released(recorded.grant)
            continue
        dispatcher.feed(HolderRecorded(device, recorded.grant))
        former.append(replace(recorded, device=device))
    return former


def _name_of_today(recorded: str, found: Mapping[bytes, Gpu], dispatcher: Dispatcher) -> str:
    """The name of a device, which is made known; ValueError if the record names none."""
    device_uuid = names.device_bytes(recorded)
    gpu = found.get(device_uuid)
    device = names.gpu_name(device_uuid) if gpu is None else gpu.uuid
    dispatcher.make_known(device, 0 if gpu is None else gpu.total_bytes)
    return device
