"""``nvshare-ctl jupyter install``: a kernel for Jupyter that shares its GPUs. Jupyter itself is not needed for that."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from nvshare.ctl.command_class import Command
from nvshare.ctl.errors import CommandError
from nvshare.ctl.new_file import written_beside
from nvshare.ctl.options.run_dirs import RunDirOption
from nvshare.ctl.options.terms import Given, check, with_terms
from nvshare.ctl.starting.execution import find
from nvshare.path_option import path_of

_HELP = "Kernels for Jupyter that share their GPUs."

_INSTALL_HELP = """
Write a kernel.json, so that Jupyter offers a Python kernel that shares its GPUs.

Each kernel is started by [bold]nvshare-ctl run[/bold] and counts as a program of its own. \
The Python may be another environment's, and needs ipykernel; nvshare need not be installed there. \
A kernel of the same name is replaced. \
What no option says, the environment says in which Jupyter starts the kernel.

[bold]Examples:[/bold]

  nvshare-ctl jupyter install --python ~/torch/bin/python
  nvshare-ctl jupyter install --name small --display-name "Python (8 GB)" --memory-limit 8G
  nvshare-ctl jupyter install --sys-prefix --python /opt/conda/bin/python

[bold]Exit codes:[/bold] 1 the Python has no ipykernel, or the file can't be written; \
126 the Python can't be executed, 127 it was not found.
"""

_KERNEL = re.compile(r"(?!\.+$)[A-Za-z0-9._-]+")
"""What is dots alone is a folder that is there."""
_PROBE = "import sys; print('prefix', sys.prefix, flush=True); import ipykernel_launcher"
_PROBE_SECONDS = 60.0


def _kernel_name(text: str) -> str:
    if not _KERNEL.fullmatch(text):
        raise typer.BadParameter(f"{text!r} is no name of a kernel; letters, digits, - and _ are, and dots beside them")
    return text.lower()


def _display_name(text: str) -> str:
    if not text.strip():
        raise typer.BadParameter(f"{text!r} is nothing that Jupyter could show; say a text, or leave the option out")
    return text


def build() -> typer.Typer:
    """The group of commands."""
    group = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode="rich")
    group.command("install", cls=Command, help=_INSTALL_HELP)(install)
    return group


@with_terms
def install(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Option(
            "--name",
            metavar="NAME",
            parser=_kernel_name,
            help="The kernel's name, in small letters; Jupyter's own is python3.",
        ),
    ] = "nvshare",
    display_name: Annotated[
        str | None,
        typer.Option(
            "--display-name",
            metavar="TEXT",
            parser=_display_name,
            show_default=False,
            help='What Jupyter shows. Default: "Python (NAME)".',
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            "--python",
            metavar="PATH",
            show_default=False,
            help="The Python that the kernel runs. Default: nvshare's own.",
        ),
    ] = None,
    user: Annotated[bool, typer.Option("--user", help="For this user: the default.")] = False,
    prefix: Annotated[
        Path | None,
        typer.Option(
            "--prefix",
            metavar="DIR",
            parser=path_of,
            show_default=False,
            help="Install in DIR/share/jupyter: /usr/local is for all users.",
        ),
    ] = None,
    sys_prefix: Annotated[
        bool, typer.Option("--sys-prefix", help="Install in the environment of the kernel's Python.")
    ] = False,
    *,
    terms: Given,
    run_dir: RunDirOption = None,
) -> None:
    """Writes the file and says where."""
    places = {"--user": user, "--prefix": prefix is not None, "--sys-prefix": sys_prefix}
    if len(said := [flag for flag, is_said in places.items() if is_said]) > 1:
        raise typer.BadParameter(f"{' and '.join(said)} each name a place; say one of them")
    check(context.obj, terms)
    options = [word for term, text in terms.items() for word in (term.flag, text)]
    if run_dir is not None:
        options += ["--run-dir", str(run_dir.absolute())]
    # Not resolved: the link is what makes it an environment's Python.
    interpreter = str(Path(find(sys.executable if python is None else python, context.obj)).absolute())
    own_prefix = _prefix_of(interpreter)
    chosen = own_prefix if sys_prefix else prefix
    data = chosen.absolute() / "share" / "jupyter" if chosen is not None else _user_data(context.obj)
    path = data / "kernels" / name / "kernel.json"
    _write(path, _kernel(interpreter, options, display_name or f"Python ({name})"))
    print(f"kernel {name}: {path}")


def _kernel(python: str, options: Sequence[str], display_name: str) -> str:
    run = [sys.executable, "-P", "-m", "nvshare.ctl", "run", *options, "--"]
    kernel = {
        "argv": [*run, python, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": display_name,
        "language": "python",
        "metadata": {"debugger": True},
    }
    return json.dumps(kernel, indent=1) + "\n"


def _prefix_of(python: str) -> Path:
    """The environment of a Python that can run a kernel."""
    # Imported where it is used: every command of nvshare-ctl loads this module.
    import subprocess

    try:
        done = subprocess.run(
            [python, "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"{python} can't be asked for its ipykernel: {error}") from error
    said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    if not done.stdout.startswith("prefix "):
        raise CommandError(f"{python} is no Python that works: {said}; choose another --python")
    if done.returncode:
        raise CommandError(
            f"{python} can't run a kernel: {said}; say '{python} -m pip install ipykernel', or choose another --python"
        )
    return Path(done.stdout.splitlines()[0].removeprefix("prefix "))


def _user_data(environment: Mapping[str, str]) -> Path:
    """Where Jupyter looks for a user's own, as its documentation says."""
    if data := environment.get("JUPYTER_DATA_DIR"):
        return Path(data).absolute()
    shared = environment.get("XDG_DATA_HOME")
    return (Path(shared) if shared else Path.home() / ".local" / "share") / "jupyter"


def _write(path: Path, text: str) -> None:
    try:
        with written_beside(path, text) as new:
            new.rename(path)
    except OSError as error:
        raise CommandError(
            f"{path} can't be written: {error.strerror}; choose a --prefix that you may write to, or none, for yourself"
        ) from error
