"""nvshare-node-agent.

Its command line is read by a child process, as the scheduler's is: what that takes would stay for as long as it serves.
"""

from __future__ import annotations

import os
import pickle
from typing import BinaryIO

from nvshare.program import run_program, written_by_child

NAME = "nvshare-node-agent"


def main() -> None:
    """The console script."""
    run_program(NAME, os.environ, _run)


def _run() -> None:
    said = written_by_child(_read_command_line)
    from nvshare.nodeagent.serving import serve

    serve(NAME, pickle.loads(said))


def _read_command_line(answer: BinaryIO) -> None:
    from nvshare.nodeagent.cli import Caller, app

    app(prog_name=NAME, obj=Caller(os.environ, lambda said: pickle.dump(said, answer)))


if __name__ == "__main__":
    main()
