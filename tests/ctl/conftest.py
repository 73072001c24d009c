"""Fixtures for tests of nvshare-ctl."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nvshare.paths import RunDir
from tests.ctl.admin_server import Answers, example, serving


@pytest.fixture
def answers(run_dir: RunDir) -> Iterator[Answers]:
    """A scheduler's admin API that shows the example and takes every command."""
    with serving(run_dir, Answers(example())) as answers:
        yield answers
