"""What the demo shows while its jobs run, where the screen can't be drawn anew."""

from __future__ import annotations

import io
import queue

from rich.console import Console

from nvshare.demo.plan import Finished, Plan, Started
from nvshare.demo.processes import Ended, JobEvent, JobEvents
from nvshare.demo.progress import ProgressDisplay
from nvshare.demo.report import DeviceInfo


def test_a_line_for_each_phase() -> None:
    """As with TERM=dumb: each line stays, and none is drawn over."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, _environ={"TERM": "dumb"}, width=80)
    device = DeviceInfo("GPU-1", "A GPU", 1 << 30)
    plan = Plan("A", 0, 1 << 20, 1, 10, 1000, 1, stamped=False)
    events: JobEvents = queue.SimpleQueue()
    for event in (Started("GPU-1"), Finished(True, "right", []), Ended(0)):
        events.put(JobEvent(0, event))
    ProgressDisplay(console, [device], [plan], [4711]).follow(events, dict)
    lines = out.getvalue().splitlines()
    assert lines
    assert all("GPU 0: job A" in line for line in lines)
    assert "job A done" in lines[-1]
    assert "\x1b" not in out.getvalue()
