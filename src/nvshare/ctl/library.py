"""``nvshare-ctl library-path``: where the preload library is."""

from __future__ import annotations

from nvshare.ctl.preload import library

HELP = """
Print the path of libnvshare.so, for those who set LD_PRELOAD themselves.

[bold]Example:[/bold]

  LD_PRELOAD=$(nvshare-ctl library-path) python train.py
"""


def library_path() -> None:
    """Prints the path on a line of its own."""
    print(library())
