"""The entry point of nvsharectl: where the environment comes from and exit codes go to."""

from __future__ import annotations

import os

from nvshare import interrupts


def main() -> None:
    """Does what the arguments say and ends the process with its exit code."""
    interrupts.end_silently()
    # Imported after that: it takes longer than a person who presses Ctrl-C.
    from nvshare.ctl.errors import ending
    from nvshare.ctl.nvsharectl.command_line import NAME, build
    from nvshare.program import run_program

    run_program(NAME, os.environ, ending(NAME, lambda: build()(obj=os.environ, prog_name=NAME)))


if __name__ == "__main__":
    main()
