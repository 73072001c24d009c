"""nvshare-scheduler.

Its command line is read by a child process. What that takes would be a fifth of all memory that the scheduler has, for
as long as it serves.
"""

from __future__ import annotations

import os
import pickle
from typing import BinaryIO

from nvshare.program import run_program, written_by_child

NAME = "nvshare-scheduler"


def main() -> None:
    """The console script."""
    run_program(NAME, os.environ, _run)


def _run() -> None:
    said = written_by_child(_read_command_line)
    from nvshare.scheduler.serving import serve

    serve(NAME, pickle.loads(said))


def _read_command_line(answer: BinaryIO) -> None:
    from nvshare.scheduler.cli import Caller, app

    app(prog_name=NAME, obj=Caller(os.environ, lambda said: pickle.dump(said, answer)))


if __name__ == "__main__":
    main()
