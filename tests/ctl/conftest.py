"""Fixtures for tests of nvshare-ctl."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from nvshare.paths import RunDir
from tests.ctl.admin_server import Answers, example, serving


@pytest.fixture
def answers(run_dir: RunDir) -> Iterator[Answers]:
    """A scheduler's admin API that shows the example and takes every command."""
    with serving(run_dir, Answers(example())) as answers:
        yield answers


@pytest.fixture
def accepting(run_dir: RunDir) -> Iterator[None]:
    """Somebody accepts clients, so no scheduler is started for them."""
    run_dir.client_socket.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(run_dir.client_socket))
        listener.listen(64)
        yield
