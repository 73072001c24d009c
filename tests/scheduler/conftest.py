"""Fixtures for tests of the running scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from nvshare.paths import RunDir
from tests.scheduler.wire_client import Scheduler


@pytest.fixture
def serve(run_dir: RunDir) -> Iterator[Callable[..., Scheduler]]:
    """Starts a scheduler with the given options in the test's run directory; each is ended with the test."""
    with ExitStack() as stack:
        yield lambda *options, **more: stack.enter_context(Scheduler(run_dir.root / "run", *options, **more))
