"""The pages of a scheduler that serves metrics and probes."""

from __future__ import annotations

import urllib.error
import urllib.request

from tests.scheduler.wire_client import TIMEOUT_SECONDS, Scheduler


def get(scheduler: Scheduler, page: str) -> tuple[int, str]:
    """A page's status and text."""
    (line,) = scheduler.logged("metrics")
    return fetch(int(str(line["port"])), page)


def fetch(port: int, page: str) -> tuple[int, str]:
    """The page of whoever listens on a port."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{page}", timeout=TIMEOUT_SECONDS) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def figures(scheduler: Scheduler) -> dict[str, float]:
    """Every figure by its name with labels, as Prometheus reads it."""
    status, text = get(scheduler, "/metrics")
    assert status == 200
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}
