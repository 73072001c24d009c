"""nvshare-device-plugin.

Its command line is read by a child process, as the scheduler's is: what that takes would stay for as long as it serves.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import BinaryIO

from nvshare.program import run_program, written_by_child

NAME = "nvshare-device-plugin"


def main() -> None:
    """The console script."""
    run_program(NAME, os.environ, _run)


def _run() -> None:
    said = written_by_child(_read_command_line)
    from nvshare.deviceplugin.serving import serve

    serve(NAME, pickle.loads(said), os.environ, sys.argv[1:])


def _read_command_line(answer: BinaryIO) -> None:
    from nvshare.deviceplugin.cli import Caller, app

    app(prog_name=NAME, obj=Caller(os.environ, lambda settings: pickle.dump(settings, answer)))


if __name__ == "__main__":
    main()
