"""The claims that are prepared on this node: their records, their CDI devices, and what the scheduler is told of them.

The record is written first and removed last. So whatever is killed when, the CDI files can be made again from the
records, and a claim without a record has left nothing behind.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from nvshare.admin import admin_pb2
from nvshare.deviceplugin.answers.allocation import Injection
from nvshare.deviceplugin.claims.cdi_files import CdiFiles
from nvshare.deviceplugin.claims.claim import ClaimError, Document, Record, record_of
from nvshare.deviceplugin.claims.records import DamagedError, RecordFiles
from nvshare.deviceplugin.claims.told import request_of
from nvshare.deviceplugin.host.cdi_file import explain
from nvshare.kubernetes.api_server import ApiError
from nvshare.log import Log

Result = TypeVar("Result")

_UID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,99}")


class Claims:
    """The claims that are prepared; ``load`` comes first, once no other instance serves."""

    def __init__(
        self,
        folder: Path,
        node: str,
        get_claim: Callable[[str, str], Awaitable[Document]],
        injection: Injection,
        cdi_dir: Path,
        nodes: Callable[[str], tuple[Path, ...]],
        offered: Callable[[], Collection[str]],
        own_bytes: Callable[[str], int | None],
        log: Log,
    ) -> None:
        """``folder``: that of the records, which is made when it is missing.

        ``get_claim``: the ResourceClaim of a namespace and a name; ApiError, with status 404 when there is none.
        ``nodes``: the device nodes of a GPU. ``offered``: the UUIDs of the GPUs that this node offers; both are called
        in a thread, too. ``own_bytes``: the memory of a GPU that claims can be promised; None: it is not known.
        """
        self._files = RecordFiles(folder)
        self._node = node
        self._get_claim = get_claim
        self._cdi = CdiFiles(cdi_dir, injection, nodes)
        self._offered = offered
        self._own_bytes = own_bytes
        self._log = log
        self._records: dict[str, Record] = {}
        self.records: Mapping[str, Record] = MappingProxyType(self._records)
        """By the claim's uid."""
        self._disk = threading.Lock()
        """For the files and ``_records`` with them: what is in one is in the others when it is free."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By uid: a claim is prepared or unprepared by one at a time."""
        self._running: set[asyncio.Task[Any]] = set()
        self.changed = asyncio.Event()
        """Set when there are other records than before."""
        self.problem: str | None = None
        """Why CDI files can't be written; None: they can."""

    def load(self) -> None:
        """Reads the records, and removes what is left of claims that have none. OSError; may wait for the disk."""
        with self._disk:
            self._files.remove_half_written()
            uids = sorted(self._files.uids())
            for uid in uids:
                try:
                    record = self._files.read(uid)
                except DamagedError as error:
                    self._log.warning(
                        "a claim's record can't be used: the claim is prepared again when kubelet asks",
                        reason=str(error),
                    )
                    continue
                if record is not None:
                    self._records[uid] = record
            # That of a damaged record stays: its containers may be made anew.
            try:
                self._cdi.remove_others(uids)
            except OSError as error:
                self._log.warning("CDI files of former claims can't be removed", reason=str(error))

    async def prepare(self, uid: str, namespace: str, name: str) -> Record:
        """What the claim has, once its record and its CDI devices are written. ClaimError, whose text is for people."""
        return await self._to_the_end(self._prepare(uid, namespace, name))

    async def unprepare(self, uid: str) -> None:
        """Forgets a claim; one that is not known is forgotten. ClaimError where files can't be removed."""
        await self._to_the_end(self._unprepare(uid))

    def forget_damaged(self, before: datetime) -> None:
        """Removes damaged records that were written before that time, and their CDI files. OSError; may wait for the
        disk.
        """
        with self._disk:
            for uid in sorted(set(self._files.uids()) - self._records.keys()):
                if self._files.written_at(uid) < before:
                    self._cdi.remove(uid)
                    self._files.remove(uid)
                    self._log.warning("a claim's damaged record is removed", file=str(self._files.file(uid)))

    def look(self) -> bool:
        """Writes the CDI files that are missing or wrong; whether there were any. May wait for the disk.

        Those of claims with a GPU that is not offered now are left as they are.
        """
        wrote, problem, offered = False, None, frozenset(self._offered())
        for uid in tuple(self._records):
            with self._disk:
                record = self._records.get(uid)
                if record is None or not offered.issuperset(record.uuids):
                    continue
                try:
                    wrote |= self._cdi.keep(record)
                except OSError as error:
                    problem = explain(error, self._cdi.file(uid))
        self.problem = problem
        return wrote

    def request(self) -> admin_pb2.SetClaimsRequest:
        """What the scheduler is to know."""
        return request_of(self._records.values(), self._own_bytes)

    async def _prepare(self, uid: str, namespace: str, name: str) -> Record:
        _check(uid)
        async with self._lock(uid):
            record = await self._read(uid, namespace, name)
            if record != self._records.get(uid):
                await asyncio.to_thread(self._write, record)
                self.changed.set()
                await self._forget_former(record)
            await asyncio.to_thread(self._describe, record, frozenset(self._offered()))
        return record

    async def _unprepare(self, uid: str) -> None:
        _check(uid)
        async with self._lock(uid):
            await asyncio.to_thread(self._remove, uid)
            self.changed.set()

    async def _read(self, uid: str, namespace: str, name: str) -> Record:
        """What the API says that the claim has; while it says nothing, what the claim had."""
        known = self._records.get(uid)
        try:
            document = await self._get_claim(namespace, name)
        except ApiError as error:
            if known is not None:
                return known
            raise ClaimError(f"ResourceClaim {namespace}/{name} can't be read: {error}") from error
        return record_of(document, uid, self._node, {*self._offered(), *(known.uuids if known else ())})

    async def _forget_former(self, record: Record) -> None:
        """Forgets claims of the same name: kubelet has forgotten them, since it knows one of a name."""
        for uid, other in tuple(self._records.items()):
            if other.full_name == record.full_name and uid != record.uid:
                self._log.warning("a former claim of this name is forgotten", claim=other.full_name, uid=uid)
                await asyncio.to_thread(self._remove, uid)

    def _write(self, record: Record) -> None:
        with self._disk:
            try:
                if record.uid in self._records:
                    # It was allocated anew: no file may say what it had, even if the program is killed now.
                    self._cdi.remove(record.uid)
                self._files.write(record)
            except OSError as error:
                file = self._files.file(record.uid)
                raise ClaimError(f"the claim's record {file} can't be written: {error.strerror}") from error
            self._records[record.uid] = record

    def _describe(self, record: Record, offered: frozenset[str]) -> None:
        with self._disk:
            try:
                if offered.issuperset(record.uuids):
                    self._cdi.keep(record)
                elif not self._cdi.file(record.uid).exists():
                    missing = next(uuid for uuid in record.uuids if uuid not in offered)
                    raise ClaimError(f"this node does not offer GPU {missing} now, which the claim was prepared for")
            except OSError as error:
                raise ClaimError(explain(error, self._cdi.file(record.uid))) from error

    def _remove(self, uid: str) -> None:
        with self._disk:
            try:
                self._cdi.remove(uid)
                self._files.remove(uid)
            except OSError as error:
                raise ClaimError(f"{error.filename} can't be removed: {error.strerror}") from error
            self._records.pop(uid, None)

    def _lock(self, uid: str) -> asyncio.Lock:
        lock = self._locks.get(uid)
        if lock is None:
            self._locks[uid] = lock = asyncio.Lock()
        return lock

    async def _to_the_end(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Its result. Who no longer waits for it, as kubelet after its time is over, does not end it half way."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            # Looked at, so that asyncio does not complain of one for which nobody waits any more.
            task.exception()


def _check(uid: str) -> None:
    """ClaimError for what can't be part of a file's name."""
    if _UID.fullmatch(uid) is None:
        raise ClaimError(f"{uid[:100]!r} is no uid of a claim")
