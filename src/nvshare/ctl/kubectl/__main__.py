"""The entry point of ``kubectl nvshare``, which kubectl finds by the name of the console script."""

from __future__ import annotations

import sys

from nvshare.ctl.errors import CommandError
from nvshare.ctl.kubectl.command_line import build


def main() -> None:
    """Runs the command that the arguments name and ends the process with its exit code."""
    try:
        build()(prog_name="kubectl nvshare")
    except CommandError as failure:
        print(f"kubectl nvshare: {failure}", file=sys.stderr)
        sys.exit(failure.code)


if __name__ == "__main__":
    main()
