"""What the contexts of processes that sleep take, kept in the run directory: nobody can measure it before they wake.

One that lost its connection is another client when it is back, of this scheduler or of the next one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nvshare.log import Log
from nvshare.scheduler.pods.processes import lives
from nvshare.scheduler.recovery import documents
from nvshare.scheduler.recovery.awaited import Process


class Contexts:
    """By process and device, as they were measured before the process last fell asleep."""

    def __init__(self, path: Path, log: Log) -> None:
        """Reads what is known of processes that still live."""
        self._path = path
        self._log = log
        self._bytes: dict[Process, int] = {}
        try:
            self._bytes = documents.read(path, _read)
        except FileNotFoundError:
            return
        except documents.DocumentError as error:
            log.warning(
                "twice what is assumed of a context is kept free for each process that sleeps: a file can't be used",
                path=str(path),
                reason=str(error),
            )

    def of(self, process: Process) -> int | None:
        """How many bytes the context of a process takes on a device; None: it is not known."""
        return self._bytes.get(process)

    def note(self, process: Process, context_bytes: int) -> None:
        """A process is to sleep, and its context was measured."""
        if self._bytes.get(process) != context_bytes:
            self._bytes[process] = context_bytes
            self._save()

    def restore(self) -> None:
        """Writes them if the file was removed."""
        if self._bytes and not self._path.exists():
            self._save()

    def _save(self) -> None:
        self._bytes = {each: size for each, size in self._bytes.items() if lives(each.pid, each.started)}
        document = [[each.device, each.pid, each.started, size] for each, size in self._bytes.items()]
        try:
            documents.write(self._path, document)
        except OSError as error:
            self._log.warning(
                "what contexts of sleeping processes take is not known to the next scheduler: it can't be written down",
                path=str(self._path),
                reason=error.strerror,
            )


def _read(document: Any) -> dict[Process, int]:
    return {Process(str(device), int(pid), int(started)): int(size) for device, pid, started, size in document}
