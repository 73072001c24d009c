"""What the scheduler's log says of gangs."""

from __future__ import annotations

import asyncio

import structlog

from nvshare.scheduler.core.actions import ReportMissing, ReportSize
from nvshare.scheduler.gang_pages import GangPages
from nvshare.scheduler.ganging import Ganging
from tests.scheduler.test_gang_pages import Member


async def test_reports() -> None:
    """Each is one line, with the processes' pids and what counts."""
    with structlog.testing.capture_logs() as lines:
        ganging = Ganging(GangPages(asyncio.get_running_loop()), structlog.get_logger())
        clients = {number: Member().client() for number in (1, 2)}
        clients[2].pid = 7
        ganging.see_to(ReportMissing((1, 2), "job", 2, 4, 10.00001), clients)
        ganging.see_to(ReportSize(2, "job", 3, 4), clients)
    missing, size = lines
    assert (missing["log_level"], missing["pids"], missing["seconds"]) == ("warning", [1, 7], 10.0)
    assert (missing["gang"], missing["come"], missing["expected"]) == ("job", 2, 4)
    assert (size["log_level"], size["gang"], size["pid"], size["said"], size["counts"]) == ("warning", "job", 7, 3, 4)
