"""From a command line to an agent that serves: its log, and its end where it can't."""

from __future__ import annotations

import asyncio
import sys

from nvshare.http import AddressError
from nvshare.log import Log, LogLines, opened_log
from nvshare.nodeagent.agent import Agent, DeadRunDirError
from nvshare.nodeagent.options import Options
from nvshare.program import complain


def serve(name: str, options: Options) -> None:
    """Returns when the agent was told to end; a program of this name that can't serve says why and exits."""
    try:
        with opened_log(options.log_format, options.log_level, sys.stderr) as (log, lines):
            asyncio.run(_run(options, log, lines))
    except (AddressError, DeadRunDirError) as error:
        complain(name, str(error))
        raise SystemExit(1) from error


async def _run(options: Options, log: Log, lines: LogLines) -> None:
    await Agent(options, log, lines).run()
