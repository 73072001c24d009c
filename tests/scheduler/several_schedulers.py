"""A machine with two simulated GPUs, and schedulers of several users on it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from nvshare import paths, simgpu
from tests.real_user import on_machine
from tests.scheduler.situations import OPTIONS
from tests.scheduler.wire_client import Scheduler

SYSTEM = "system"
"""The folder that all of its users find as the system's run directory."""


class Machine:
    """In a folder; a context manager that ends its schedulers."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.chmod(0o755)
        self.folder(SYSTEM)
        state = self.folder("simgpu")
        state.chmod(0o777)
        self.environment = simgpu.environment(state, "2x512MiB/16MiB")
        """Of whoever sees the GPUs; every user may use them."""
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def folder(self, name: str, uid: int = 0) -> Path:
        """A folder of a user's."""
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        if uid:
            os.chown(folder, uid, uid)
        return folder

    def user(self, uid: int) -> list[str]:
        """What comes before a command of this user's."""
        return on_machine(self.root / SYSTEM, uid)

    def begin(self, name: str, uid: int = 0, *options: str) -> Scheduler:
        """Starts a scheduler: of a user in a folder of theirs, or root's as the machine's."""
        root = self.folder(name, uid)
        before = self.user(uid) if uid or name == SYSTEM else []
        named = paths.SYSTEM_RUN_DIR if name == SYSTEM else None
        started = Scheduler(root, *OPTIONS, *options, environment=self.environment, before=before, named=named)
        return self._stack.enter_context(started)
