"""The entry point of nvsharectl: where the environment comes from and exit codes go to."""

from __future__ import annotations

import os

from nvshare.ctl.errors import ending
from nvshare.ctl.nvsharectl.command_line import NAME, build
from nvshare.program import run_program


def main() -> None:
    """Does what the arguments say and ends the process with its exit code."""
    run_program(NAME, ending(NAME, lambda: build()(obj=os.environ, prog_name=NAME)))


if __name__ == "__main__":
    main()
