"""``nvshare-ctl library-path``: where the preload library is."""

from __future__ import annotations

from nvshare import shim
from nvshare.ctl.errors import CommandError

HELP = """
Print the path of libnvshare.so, for those who set LD_PRELOAD themselves.

Other than by nvshare-ctl run, no scheduler is started then: the program waits for one.

[bold]Example:[/bold]

  LD_PRELOAD=$(nvshare-ctl library-path) python train.py
"""


def library_path() -> None:
    """Prints the path on a line of its own."""
    try:
        print(shim.library_path())
    except FileNotFoundError as error:
        raise CommandError(str(error)) from error
