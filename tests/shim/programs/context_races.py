"""Cases of the ends of contexts beside other threads, each in a fresh process: context_races.py NAME DENY.SO.

They fail by an assertion. DENY.SO is ``deny_membarrier.c``.
"""

from __future__ import annotations

import ctypes
import sys

from tests.shim.lock_server import LockServer
from tests.shim.programs.driver_calls import call, enters, hold, start, use_device

PRIMARY = 0x1000
SIDE = 1024
FLOAT = 0x20


class Array(ctypes.Structure):
    """CUDA_ARRAY_DESCRIPTOR."""

    _fields_ = (
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("format", ctypes.c_int),
        ("channels", ctypes.c_uint),
    )


def begin_again() -> int:
    """Retains the first device's primary context, and allocates in it."""
    array, place = Array(SIDE, SIDE, FLOAT, 1), ctypes.c_void_p()
    return (
        call("cuDevicePrimaryCtxRetain", ctypes.addressof(place), 0)
        or call("cuCtxSetCurrent", PRIMARY)
        or call("cuArrayCreate_v2", ctypes.addressof(place), ctypes.addressof(array))
    )


def primary_context_that_begins_while_it_ends(server: LockServer) -> None:
    """What is allocated in the new one is not taken for the old one's, which has the same address."""
    peer = use_device(server)
    hold("cuDevicePrimaryCtxGetState")
    ending = enters("cuDevicePrimaryCtxGetState", lambda: call("cuDevicePrimaryCtxRelease_v2", 0))
    beginning = start(begin_again)
    beginning.waits()
    hold(None)
    assert ending.result() == beginning.result() == 0
    peer.connection.close()
    assert server.accept().register.footprint_bytes == SIDE * SIDE * 4


def errno_is_kept(server: LockServer) -> None:
    """The end of a context waits for threads that ask about its events; without membarrier that leaves no trace."""
    assert ctypes.CDLL(sys.argv[2]).deny_membarrier() == 0
    use_device(server)
    ctypes.set_errno(77)
    assert call("cuDevicePrimaryCtxRelease_v2", 0) == 0
    assert ctypes.get_errno() == 77


if __name__ == "__main__":
    globals()[sys.argv[1]](LockServer())
