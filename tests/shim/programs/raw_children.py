"""Children that no handler of fork(2) has seen: raw_children.py RAW_CHILD.SO. It fails by an assertion."""

from __future__ import annotations

import ctypes
import os
import sys

from nvshare.protocol import wire
from tests.shim.lock_server import LockServer
from tests.shim.programs.driver_calls import STREAM, call, ends_at_once, launch, use_device

NOT_INITIALIZED = 3
ZEROS = ctypes.create_string_buffer(4096)
CHILD = ctypes.PyDLL(sys.argv[1]).raw_child
CALL = ctypes.PYFUNCTYPE(ctypes.c_int)


def ask() -> int:
    """A call that submits nothing."""
    return call("cuCtxGetFlags", ctypes.addressof(ZEROS))


def submit() -> int:
    """A call that needs a turn."""
    return launch(STREAM)


def answer(function: object) -> int:
    """What a child's call answers."""
    status = CHILD(CALL(function))
    assert os.WIFEXITED(status), f"it was ended by signal {os.WTERMSIG(status)}"
    return os.WEXITSTATUS(status)


def main() -> None:
    """None of them waits for what only the parent hears, which is as it was."""
    peer = use_device(LockServer())
    assert answer(ask) == 0
    assert answer(submit) == NOT_INITIALIZED
    peer.send(wire.Sleep(1))
    assert peer.expect(wire.Asleep).request == 1
    assert CHILD(None) == 0
    assert answer(ask) == answer(submit) == NOT_INITIALIZED
    peer.send(wire.Sleep(2))
    assert peer.expect(wire.Asleep).request == 2


ends_at_once(main)
