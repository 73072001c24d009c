"""What the core has to say to the operator."""

from __future__ import annotations

import structlog

from nvshare.scheduler import reports
from nvshare.scheduler.core.actions import ReportMissing, ReportShort, ReportSize, ReportUnresponsive
from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.pods.identity import Identity, Source
from tests.scheduler.test_gang_pages import Member


def test_each_is_one_line() -> None:
    """A warning, with the processes' pids and what counts; the pod is named where an operator has to find it."""
    clients = {number: Member().client() for number in (1, 2)}
    clients[1].description = Description(1, "python a.py", Identity())
    clients[2].pid = 7
    clients[2].description = Description(7, "python b.py", Identity("team", "train-0", "main", Source.KERNEL))
    with structlog.testing.capture_logs() as lines:
        for report in (
            ReportMissing((1, 2), "job", 2, 4, 10.00001),
            ReportSize(2, "job", 3, 4),
            ReportShort(1, "GPU-1", "train@0", 600, 494),
            ReportUnresponsive(2, 5, 10.00001),
        ):
            reports.write(report, clients, structlog.get_logger())
    missing, size, short, unresponsive = lines
    assert {line["log_level"] for line in lines} == {"warning"}
    assert (missing["pid"], short["pid"]) == (1, 1)
    assert (missing["pids"], missing["seconds"]) == ([1, 7], 10.0)
    assert (missing["gang"], missing["come"], missing["expected"]) == ("job", 2, 4)
    assert (size["gang"], size["pid"], size["said"], size["counts"]) == ("job", 7, 3, 4)
    assert (short["container"], short["device"]) == ("train@0", "GPU-1")
    assert (short["requested_bytes"], short["kept_bytes"]) == (600, 494)
    assert (unresponsive["client"], unresponsive["grant"], unresponsive["overdue_seconds"]) == (2, 5, 10.0)
    for line in (size, unresponsive):
        assert (line["pid"], line["command"]) == (7, "python b.py")
        assert (line["namespace"], line["pod"], line["container"]) == ("team", "train-0", "main")
    assert (unresponsive["device"], "pod" in missing) == ("GPU-a", False)
