"""Launches a kernel in Python and says how that ended: interrupted.py LOADER HANDLER.

LOADER is CDLL or PyDLL of ctypes: whether the interpreter's lock is given back around the call. HANDLER is what SIGTERM
does. Every line of the output is said at once.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from types import FrameType

ARGUMENTS = (1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
DRIVER = getattr(ctypes, sys.argv[1])("libcuda.so.1")


def say(*words: object) -> None:
    """A line of output."""
    print(*words, flush=True)


def launch() -> int:
    """Launches a kernel; does not return before it has been submitted."""
    return int(DRIVER.cuLaunchKernel(None, *map(ctypes.c_size_t, ARGUMENTS)))


def note(number: int, frame: FrameType | None) -> None:
    """A handler that lets the program go on."""
    del frame
    say("handled", number)


def leave(number: int, frame: FrameType | None) -> None:
    """A handler that ends the program."""
    del number, frame
    sys.exit(7)


def in_a_thread() -> None:
    """Launches in a second thread, and says when the first one's wait for it is ended by Ctrl-C."""
    done = threading.Event()

    def second() -> None:
        say("result", launch())
        done.set()

    threading.Thread(target=second).start()
    try:
        done.wait()
    except KeyboardInterrupt:
        say("interrupted")
    done.wait()


def main() -> None:
    """The program."""
    context = ctypes.c_void_p()
    DRIVER.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    DRIVER.cuCtxSetCurrent(context)
    match sys.argv[2]:
        case "note":
            signal.signal(signal.SIGTERM, note)
        case "leave":
            signal.signal(signal.SIGTERM, leave)
        case "thread":
            return in_a_thread()
    try:
        say("result", launch())
    finally:
        # What the program does as it ends may use the GPU, but not wait for it.
        DRIVER.cuDevicePrimaryCtxRelease_v2(0)


main()
