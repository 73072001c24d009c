"""From a command line to a scheduler that serves: its log, and its end where it can't."""

from __future__ import annotations

import sys

from nvshare.log import opened_log
from nvshare.program import complain
from nvshare.scheduler import server
from nvshare.scheduler.options import CommandLine
from nvshare.scheduler.run_dir import RunDirError
from nvshare.scheduler_process import answers


def serve(name: str, said: CommandLine) -> None:
    """Returns when the scheduler was told to end; a program of this name that can't serve says why and exits."""
    try:
        with opened_log(said.log_format, said.log_level, sys.stderr) as (log, lines):
            if said.complaint:
                log.warning(said.complaint)
            if (other := next(filter(answers, said.others), None)) is not None:
                log.warning(
                    "another scheduler serves this machine, and programs go to that one", run_dir=str(other.root)
                )
            server.run(said.options, log, lines)
    except (RunDirError, server.StartError) as error:
        complain(name, str(error))
        raise SystemExit(1) from error
