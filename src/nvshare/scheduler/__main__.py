"""nvshare-scheduler."""

from __future__ import annotations

import os

from nvshare.scheduler.cli import app


def main() -> None:
    """The console script."""
    app(prog_name="nvshare-scheduler", obj=os.environ)


if __name__ == "__main__":
    main()
