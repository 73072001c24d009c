"""What every program of nvshare does around its work, so that no terminal, pipe or full disk shows a traceback."""

from __future__ import annotations

import codecs
import io
import os
import re
import signal
import sys
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import BinaryIO, NoReturn, TextIO

_PLAIN = {"█": "#", "▌": "#", "▐": "#", "▓": "%", "▒": ":", "▚": "x", "░": ".", "·": ".", "━": "=", "╌": "-", "…": "~"}
"""What stands for our characters on a terminal that does not have them: each as wide as what it replaces."""
_ERRORS = "nvshare-plain"
_TERMINAL_SIZES = ("COLUMNS", "LINES")
_PR_SET_PDEATHSIG = 1
"""Of the kernel's linux/prctl.h."""
_SIZE = re.compile("0*[1-9][0-9]{0,3}")
"""Of a terminal. In one of no columns everything that is drawn, complaints too, would be nothing."""


def run_program(name: str, environment: MutableMapping[str, str], work: Callable[[], None]) -> None:
    """Does the work. Output that can't be written ends it with one line on stderr and exit code 1; where its reader has
    gone, as by SIGPIPE, which shells show as 141.

    From the environment it takes what is no size of a terminal: then the terminal itself is asked.
    """
    for variable in _TERMINAL_SIZES:
        if not _SIZE.fullmatch(environment.get(variable, "")):
            environment.pop(variable, None)
    _replace_closed()
    codecs.register_error(_ERRORS, _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)
    try:
        try:
            work()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except SystemExit as end:
        # What reads command lines takes it for an exit with 1.
        if isinstance(end.__context__, BrokenPipeError):
            _end_by_sigpipe()
        raise
    except OSError as error:
        if not _refuses(sys.stdout):
            raise
        if isinstance(error, BrokenPipeError):
            _end_by_sigpipe()
        complain(name, f"the output can't be written: {error.strerror}")
        sys.exit(1)
    finally:
        for stream in (sys.stdout, sys.stderr):
            if _fails(stream):
                _discard(stream)


def written_by_child(work: Callable[[BinaryIO], None]) -> bytes:
    """What ``work`` writes, in a child process that ends with it: its memory and modules are not this process's.

    Where that is nothing, this process exits as the child did, or with 128 and the number of the signal that ended it.
    It must not have threads yet.
    """
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiving)
        # Nobody takes it when the other process was ended meanwhile.
        with suppress(BrokenPipeError), os.fdopen(sending, "wb") as answer:
            work(answer)
        sys.exit()
    os.close(sending)
    with os.fdopen(receiving, "rb") as answer:
        written = answer.read()
    _, status = os.waitpid(child, 0)
    if not written:
        code = os.waitstatus_to_exitcode(status)
        sys.exit(code if code >= 0 else 128 - code)
    return written


def end_with_container() -> None:
    """Has this process get SIGTERM when what looks after its container dies: containerd's shim, CRI-O's conmon. The
    runtime holds the container for dead then, and starts another one beside what lives on.

    Only the first process of a pid namespace: who starts another one, as a shell does, may end. To be called by the
    main thread.
    """
    if os.getpid() == 1:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def complain(name: str, text: str) -> None:
    """One line on stderr, if anybody is there to read it."""
    with suppress(OSError):
        print(f"{name}: {text}", file=sys.stderr, flush=True)


def _end_by_sigpipe() -> NoReturn:
    """As other programs end. Python ignores the signal, since sockets raise it, too."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.raise_signal(signal.SIGPIPE)
    # Where it is blocked.
    sys.exit(128 + signal.SIGPIPE)


def _replace_closed() -> None:
    """What is closed takes all that is written. A command that is executed finds it closed."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character, "?") for character in lost), error.end


def _refuses(stream: TextIO | None) -> bool:
    """Whether nothing can be written to it. A piece beyond the buffer's size leaves nothing to see that by: one more is
    tried."""
    try:
        return _fails(stream) or (stream is not None and not os.write(stream.fileno(), b"\n"))
    except OSError:
        return True


def _fails(stream: TextIO | None) -> bool:
    """What could not be written is still there to be written."""
    try:
        if stream is not None:
            stream.flush()
    except OSError:
        return True
    return False


def _discard(stream: TextIO) -> None:
    """Python writes once more at its end, and would complain and change the exit code."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
