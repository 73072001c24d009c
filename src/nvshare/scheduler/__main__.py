"""nvshare-scheduler."""

from __future__ import annotations

import os

from nvshare.program import run_program
from nvshare.scheduler.cli import app

NAME = "nvshare-scheduler"


def main() -> None:
    """The console script."""
    run_program(NAME, lambda: app(prog_name=NAME, obj=os.environ))


if __name__ == "__main__":
    main()
