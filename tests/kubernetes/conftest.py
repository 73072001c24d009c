"""Fixtures for tests of what talks to the Kubernetes API: an account, and an API server for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
import structlog
from structlog.testing import CapturingLogger

from nvshare.kubernetes.account import Account
from nvshare.log import Log
from tests.kubernetes.documents import node_document
from tests.kubernetes.fake_api import Cluster, make_account, serving


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Account:
    """The mounted service account; its API server is nowhere."""
    return make_account(tmp_path_factory.mktemp("account"), 1)


@pytest.fixture
def cluster() -> Cluster:
    """One with the agent's node."""
    cluster = Cluster()
    cluster.put("/api/v1/nodes", node_document())
    return cluster


@pytest.fixture
def reached(cluster: Cluster, account: Account) -> Iterator[Account]:
    """The account at the cluster's API server."""
    with serving(cluster, account.folder) as found:
        yield found


@pytest.fixture
def lines() -> CapturingLogger:
    """What was logged."""
    return CapturingLogger()


@pytest.fixture
def log(lines: CapturingLogger) -> Log:
    """A log that ``lines`` keeps."""
    return structlog.wrap_logger(lines, processors=[])


@asynccontextmanager
async def at_work(*work: Any) -> AsyncIterator[None]:
    """Coroutines run as tasks until the end; one that fails before fails the test."""
    tasks = [asyncio.create_task(each) for each in work]
    async with AsyncExitStack() as stack:
        for task in tasks:
            stack.callback(task.cancel)
        yield
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def quick_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror that waits no longer than a test need."""
    monkeypatch.setattr("nvshare.kubernetes.mirror._SHORTEST_PAUSE", 0.02)
    monkeypatch.setattr("nvshare.kubernetes.mirror._LONGEST_PAUSE", 0.2)
