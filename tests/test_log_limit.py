"""The limit on the lines of a log."""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from nvshare.log_limit import LogLimit


@dataclass(slots=True)
class Lines:
    """What a limit lets pass, at times that only the test moves."""

    now: float = 0.0
    kept: list[dict[str, object]] = field(default_factory=list)

    def logger(self) -> structlog.typing.FilteringBoundLogger:
        """What writes them."""

        limit = LogLimit(lambda: self.now)

        def keep(_logger: object, level: str, values: structlog.typing.EventDict) -> str:
            if limit.lets_pass(level, values):
                self.kept.append(dict(values))
            raise structlog.DropEvent

        wrapper = structlog.make_filtering_bound_logger("debug")
        log: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
            None, processors=[keep], wrapper_class=wrapper
        )
        return log

    def of(self, pid: int) -> list[dict[str, object]]:
        """Those of a process."""
        return [line for line in self.kept if line["pid"] == pid]


def test_burst_then_a_rate() -> None:
    """A burst passes whole; of a flood one line a second does, and the next one says how many did not."""
    lines = Lines()
    log = lines.logger()
    for number in range(1000):
        log.warning("bad", number=number, pid=1)
    passed = len(lines.kept)
    assert 10 <= passed <= 50
    lines.now += 1
    log.warning("bad", number=1000, pid=1)
    log.warning("bad", number=1001, pid=1)
    assert lines.kept[passed:] == [{"event": "bad", "number": 1000, "pid": 1, "lines_left_out": 1000 - passed}]
    lines.now += 1000
    log.warning("bad", number=1002, pid=1)
    log.warning("bad", number=1003, pid=1)
    assert lines.kept[-1] == {"event": "bad", "number": 1003, "pid": 1}


def test_others_are_heard() -> None:
    """Whatever one process causes, others' lines of that kind, and its own of other kinds, are written."""
    lines = Lines()
    log = lines.logger()
    for _ in range(1000):
        log.info("came", pid=1)
        log.warning("bad", pid=1)
    log.warning("bad", pid=2)
    assert [line["event"] for line in lines.of(2)] == ["bad"]
    log.error("worse", pid=1)
    assert lines.kept[-1] == {"event": "worse", "pid": 1}


def test_many_processes() -> None:
    """Processes without end, and lines that name none, are limited together."""
    lines = Lines()
    log = lines.logger()
    for pid in range(5000):
        log.warning("bad", pid=pid)
        log.warning("strange")
    assert 100 <= len(lines.kept) <= 500


def test_who_debugs_sees_all() -> None:
    """Lines of the level debug are not counted, and take nothing from others."""
    lines = Lines()
    log = lines.logger()
    for _ in range(1000):
        log.debug("step", pid=1)
    log.info("step", pid=1)
    assert len(lines.kept) == 1001
