"""In a process with the library and the counting driver: door_linked.py BEYOND.SO, which is there before cuInit."""

from __future__ import annotations

import ctypes
import sys

from nvshare.protocol import wire
from tests.shim.lock_server import LockServer
from tests.shim.programs.driver_calls import call, ends_at_once, use_device


def main(beyond: ctypes.CDLL) -> None:
    assert call("cuInit", 0) == 0
    peer = use_device(LockServer())
    peer.send(wire.Sleep(1))
    unknown = "it uses cuUnheardOf, which this version does not know"
    assert peer.expect(wire.NotAsleep) == wire.NotAsleep(1, unknown, final=True)
    assert beyond.go_beyond() == 0


ends_at_once(lambda: main(ctypes.CDLL(sys.argv[1])))
