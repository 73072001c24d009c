"""How programs of the swapping tests come into a situation, by the real scheduler and the real library.

The devices have 512 MiB; beside two contexts and the reserve a program can have some 440 MiB.
"""

from __future__ import annotations

from nvshare.admin import admin_pb2
from tests.polling import poll_until
from tests.scheduler.wire_client import Scheduler
from tests.shim.controlled_program import ControlledProgram

MIB = 1 << 20
CHUNK = 64 * MIB
NEIGHBOUR_BYTES = 440 * MIB
"""Beside a program with so much another one can't keep a chunk on the device."""
OPTIONS = ("--quantum", "0.3", "--host-memory", "2GiB", "--reserve", "16MiB")


def calls(program: ControlledProgram, *lines: str) -> None:
    """These calls succeed."""
    for line in lines:
        assert (line, program.do(line)) == (line, "0"), program.errors


def opens(program: ControlledProgram, ordinal: int = 0) -> None:
    """Makes a device's primary context current."""
    retain = f"cuDevicePrimaryCtxRetain &primary{ordinal} {ordinal}"
    calls(program, "cuInit 0", retain, f"cuCtxSetCurrent primary{ordinal}")


def allocates(program: ControlledProgram, name: str, size: int, seed: int) -> None:
    """It has so much memory there, with contents that follow from the seed."""
    calls(program, f"cuMemAlloc_v2 &{name} {size}", f"stamp {name} {size} {seed}", "cuCtxSynchronize")


def client(scheduler: Scheduler, program: ControlledProgram, ordinal: int = 0) -> admin_pb2.Client | None:
    """What the status says of a program on one of the devices; None: it is not there."""
    for device in scheduler.status().devices:
        if device.index == str(ordinal):
            return next((each for each in device.clients if each.pid == program.pid), None)
    return None


def out_bytes(scheduler: Scheduler, program: ControlledProgram, ordinal: int = 0) -> int:
    """How much of its memory is out."""
    found = client(scheduler, program, ordinal)
    return found.swap.swapped_bytes if found else 0


def pushes_out(
    scheduler: Scheduler, neighbour: ControlledProgram, program: ControlledProgram, size: int, ordinal: int = 0
) -> None:
    """A new neighbour takes nearly all of the device, and keeps it: so much of the program's memory is out."""
    opens(neighbour, ordinal)
    allocates(neighbour, "all", NEIGHBOUR_BYTES, 99)
    poll_until(lambda: out_bytes(scheduler, program, ordinal) >= size, "its memory is out", 20)
