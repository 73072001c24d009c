"""The file in the run directory that names the device plugin's settings, as the node's label does."""

from __future__ import annotations

import os
from pathlib import Path

from nvshare.log import Log


class ConfigFile:
    """Keeps the file as the label is. The plugin has no access to the API: it reads this."""

    def __init__(self, path: Path, log: Log) -> None:
        self._path = path
        self._log = log
        self._failed = ""

    def bring_up_to_date(self, value: str) -> None:
        """Empty: no file. Readers see the former text or this one, and nothing between."""
        try:
            if value == self._present():
                return
            if value:
                self._write(value)
            else:
                self._path.unlink()
        except OSError as error:
            if self._failed != str(error):
                self._failed = str(error)
                self._log.warning("the node's choice of settings can't be written", reason=str(error))
            return
        self._failed = ""
        self._log.info("the node's label chooses settings of the device plugin", config=value or None)

    def _present(self) -> str:
        try:
            return self._path.read_text(errors="replace").strip()
        except FileNotFoundError:
            return ""

    def _write(self, value: str) -> None:
        self._path.parent.mkdir(mode=0o755, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{value}\n")
        new.rename(self._path)
