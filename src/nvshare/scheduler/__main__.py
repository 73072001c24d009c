"""nvshare-scheduler."""

from __future__ import annotations

from nvshare.scheduler.cli import app


def main() -> None:
    """The console script."""
    app(prog_name="nvshare-scheduler")


if __name__ == "__main__":
    main()
