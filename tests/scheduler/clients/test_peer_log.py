"""The limit on lines that peers cause."""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from nvshare.log import Log
from nvshare.scheduler.clients.peer_log import PeerLog


@dataclass(slots=True)
class Clock:
    """A clock that only the test moves."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Lines:
    """A log that keeps its lines."""

    kept: list[dict[str, object]] = field(default_factory=list)

    def logger(self) -> Log:
        """What writes them."""

        def keep(_logger: object, _method: str, values: structlog.typing.EventDict) -> str:
            self.kept.append(dict(values))
            raise structlog.DropEvent

        log: Log = structlog.wrap_logger(
            None, processors=[keep], wrapper_class=structlog.make_filtering_bound_logger("info")
        )
        return log


def test_burst_then_a_rate() -> None:
    """A burst passes whole; of a flood a few lines a second do, and each says how many did not."""
    lines, clock = Lines(), Clock()
    log = PeerLog(lines.logger(), clock)
    for number in range(1000):
        log.warning("bad", number=number)
    passed = len(lines.kept)
    assert 10 <= passed <= 100
    clock.now += 1
    log.warning("bad", number=1000)
    assert lines.kept[-1] == {"event": "bad", "number": 1000, "lines_left_out": 1000 - passed}
    log.warning("bad", number=1001)
    assert lines.kept[-1] == {"event": "bad", "number": 1001}


def test_ordinary_lines_take_nothing_from_warnings() -> None:
    """However many clients come and go, a peer that is wrong is still named."""
    lines, clock = Lines(), Clock()
    log = PeerLog(lines.logger(), clock)
    for _ in range(1000):
        log.info("came")
    log.warning("bad")
    assert lines.kept[-1] == {"event": "bad"}
