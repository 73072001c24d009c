"""Every core looks whether the invariants hold, whatever it is used for."""

from __future__ import annotations

from typing import NoReturn

from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.invariants import CheckedCore
from nvshare.scheduler.core.settings import Settings

_begin = Core.__init__


def check_all() -> None:
    """From now on in this process: AssertionError where one does not."""
    Core.__init__ = _begin_checked  # type: ignore[method-assign]


def check_none() -> None:
    """From now on none does, where it is counted what a plan costs."""
    Core.__init__ = _begin  # type: ignore[method-assign]


def _begin_checked(core: Core, settings: Settings) -> None:
    _begin(core, settings)
    core.__class__ = CheckedCore
    core._broken = _fail  # type: ignore[attr-defined]


def _fail(what: str) -> NoReturn:
    raise AssertionError(what)
