"""The entry point of ``kubectl nvshare``, which kubectl finds by the name of the console script."""

from __future__ import annotations

import os

from nvshare import interrupts, paths

NAME = "kubectl nvshare"


def main() -> None:
    """Runs the command that the arguments name and ends the process with its exit code."""
    interrupts.end_silently()
    # Imported after that: it takes longer than a person who presses Ctrl-C.
    from nvshare.ctl.errors import ending
    from nvshare.ctl.kubectl.command_line import build
    from nvshare.program import run_program

    if not os.environ.get(paths.KUBECONFIG):
        # As kubectl: what is empty names no file.
        os.environ.pop(paths.KUBECONFIG, None)
    run_program(NAME, os.environ, ending(NAME, lambda: build()(prog_name=NAME)))


if __name__ == "__main__":
    main()
