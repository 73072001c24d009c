"""How a command is found, and takes this process's place."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from nvshare.ctl.errors import CommandError, ExitCode

_HOLD_DESCRIPTOR = 100
_SHELL = "/bin/sh"
_FIRST_BYTES = 128
_LOCALE = "LC_CTYPE"
_GIVEN = Path("/proc/self/environ")


def find(name: str, environment: Mapping[str, str]) -> str:
    """The file that the command's name means, as a shell would find it."""
    search = environment.get("PATH", os.defpath)
    if found := shutil.which(name, path=search):
        return found
    if there := shutil.which(name, mode=os.F_OK, path=search):
        raise CommandError(f"cannot execute {there}: permission denied; chmod +x it?", ExitCode.NOT_EXECUTABLE)
    try:
        is_directory = bool(name) and Path(name).is_dir()
    except OSError as error:
        # A folder above it that is not for this user, or too long a name.
        raise CommandError(f"cannot execute {name}: {error.strerror}", ExitCode.NOT_EXECUTABLE) from error
    if is_directory:
        raise CommandError(f"cannot execute {name}: it is a directory", ExitCode.NOT_EXECUTABLE)
    where = "no such file" if "/" in name else "no such command in PATH"
    raise CommandError(f"cannot execute {name or repr(name)}: {where}", ExitCode.NOT_FOUND)


def inherit(descriptor: int) -> None:
    """Lets the command inherit an open file, at a number that scripts don't choose for their own files.

    OSError: it may have no more files (``ulimit -n``)."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    fcntl.fcntl(descriptor, fcntl.F_DUPFD, min(_HOLD_DESCRIPTOR, most // 2))


def execute(executable: str, command: list[str], environment: Mapping[str, str]) -> None:
    """Never returns: the process becomes the command. CommandError: it can't be executed."""
    # Python ignores these two at its start; an ignored signal stays ignored over exec, and the command expects neither.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        _become(executable, command, _with_given_locale(environment))
    except FileNotFoundError as error:
        message = f"cannot execute {executable}: the interpreter that it names does not exist"
        raise CommandError(message, ExitCode.NOT_FOUND) from error
    except OSError as error:
        raise CommandError(f"cannot execute {executable}: {error.strerror}", ExitCode.NOT_EXECUTABLE) from error


def _with_given_locale(environment: Mapping[str, str]) -> dict[str, str]:
    """With the LC_CTYPE that this process was given. Python changes it where the locale is C (PEP 538)."""
    try:
        given = dict(each.partition("=")[::2] for each in os.fsdecode(_GIVEN.read_bytes()).split("\0"))
    except OSError:
        return dict(environment)
    own = {_LOCALE: given[_LOCALE]} if _LOCALE in given else {}
    return {name: value for name, value in environment.items() if name != _LOCALE} | own


def _become(executable: str, command: list[str], environment: Mapping[str, str]) -> None:
    """As env and execvp(3) do: a text without an interpreter is a script of /bin/sh. OSError: it can't be executed."""
    try:
        os.execve(executable, command, environment)
    except OSError as error:
        if error.errno != errno.ENOEXEC or _is_binary(executable):
            raise
        # What begins with a hyphen is no option: find answers a path, which has a slash, or a name in this folder.
        script = executable if "/" in executable else f"./{executable}"
        os.execve(_SHELL, [_SHELL, script, *command[1:]], environment)


def _is_binary(path: str) -> bool:
    """Whether the first line has a NUL, which no script has: shells look at that, too."""
    try:
        with Path(path).open("rb") as file:
            return b"\0" in file.read(_FIRST_BYTES).partition(b"\n")[0]
    except OSError:
        return False
