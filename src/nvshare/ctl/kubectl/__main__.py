"""The entry point of ``kubectl nvshare``, which kubectl finds by the name of the console script."""

from __future__ import annotations

from nvshare.ctl.errors import ending
from nvshare.ctl.kubectl.command_line import build
from nvshare.program import run_program

NAME = "kubectl nvshare"


def main() -> None:
    """Runs the command that the arguments name and ends the process with its exit code."""
    run_program(NAME, ending(NAME, lambda: build()(prog_name=NAME)))


if __name__ == "__main__":
    main()
