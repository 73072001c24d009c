"""The entry point of nvshare-ctl: where the environment and the arguments come from and exit codes go to."""

from __future__ import annotations

import os
import sys

from nvshare.ctl.command_line import build
from nvshare.ctl.errors import CommandError


def main() -> None:
    """Runs the command that the arguments name and ends the process with its exit code."""
    try:
        build()(obj=os.environ, prog_name="nvshare-ctl")
    except CommandError as failure:
        print(f"nvshare-ctl: {failure}", file=sys.stderr)
        sys.exit(failure.code)


if __name__ == "__main__":
    main()
