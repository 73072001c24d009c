"""The file that says that clients may outlive the scheduler that they are registered with."""

from __future__ import annotations

from contextlib import suppress

from nvshare.log import Log
from nvshare.paths import RunDir


class ClientsMarker:
    """The marker in one run directory."""

    def __init__(self, run_dir: RunDir, log: Log) -> None:
        self._path = run_dir.clients_marker
        self._log = log
        self.found = self._path.exists()
        """Whether the scheduler before this one left it."""
        self._is_set = self.found

    def set(self) -> None:
        """There is a client."""
        if self._is_set:
            return
        self._is_set = True
        try:
            self._path.touch(mode=0o644)
        except OSError as error:
            self._log.warning(
                "cannot write the marker of clients: after a crash the next scheduler does not wait for them",
                path=str(self._path),
                reason=error.strerror,
            )

    def remove(self) -> None:
        """The scheduler ends, and no client outlives it."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
