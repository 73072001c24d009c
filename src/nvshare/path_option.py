"""How people name a file or a folder on a command line."""

from __future__ import annotations

from pathlib import Path

import typer


def path_of(text: str | Path) -> Path:
    """A path, as an option's parser. What is empty would mean this folder, and is a variable that was not set.

    An option's default comes here as well, and is a path already.
    """
    if isinstance(text, Path):
        return text
    if not text:
        raise typer.BadParameter("'' is no path; name one, or leave the option out")
    try:
        text.encode()
    except UnicodeEncodeError:
        # Neither gRPC nor JSON has a way to say it.
        raise typer.BadParameter(f"{text!r} is not UTF-8") from None
    path = Path(text)
    try:
        path.absolute()
    except FileNotFoundError:
        raise typer.BadParameter(f"{text!r} is nowhere, since the present folder was removed") from None
    return path
