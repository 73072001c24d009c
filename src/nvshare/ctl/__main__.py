"""The entry point of nvshare-ctl: where the environment and the arguments come from and exit codes go to."""

from __future__ import annotations

import os

from nvshare import interrupts

NAME = "nvshare-ctl"


def main() -> None:
    """Runs the command that the arguments name and ends the process with its exit code."""
    interrupts.end_silently()
    # Imported after that: it takes longer than a person who presses Ctrl-C.
    from nvshare.ctl.command_line import build
    from nvshare.ctl.errors import ending
    from nvshare.program import run_program

    run_program(NAME, os.environ, ending(NAME, lambda: build()(obj=os.environ, prog_name=NAME)))


if __name__ == "__main__":
    main()
