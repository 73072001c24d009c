"""Structured logs on stderr, one line an event: text for people, JSON for collectors."""

from __future__ import annotations

import sys

import structlog

from nvshare.deviceplugin.configuration import LogFormat

Log = structlog.typing.FilteringBoundLogger


def configure(log_format: LogFormat) -> Log:
    """Sets up logging for the process and returns the plugin's log."""
    renderer: structlog.typing.Processor
    match log_format:
        case LogFormat.JSON:
            renderer = structlog.processors.JSONRenderer()
        case LogFormat.TEXT:
            renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    log: Log = structlog.get_logger()
    return log
