"""Uses the program's own virtual memory, a case a run, and prints what it sees."""

from __future__ import annotations

import ctypes
import sys

from cuda.bindings import driver  # type: ignore[import-untyped]

from tests.shim.programs.stepping import (
    FLOATS,
    MIB,
    POSIX_FD,
    access,
    call,
    check,
    create,
    opened,
    properties,
    run,
    show,
    step,
    write,
)


def grows() -> None:
    """As a framework that reserves much and maps more and more of it."""
    base = int(call("cuMemAddressReserve", 1024 * MIB, 0, 0, 0))
    size, end = 96 * MIB, base
    for number in range(1, 5):
        handle = create(size)
        call("cuMemMap", end, size, 0, handle, 0)
        call("cuMemSetAccess", end, size, access(), 1)
        for place in (0, 50 * MIB, size - 4 * FLOATS):
            write(end + place, number + place / MIB)
        end += size
        for before in range(1, number + 1):
            for place in (0, 50 * MIB, size - 4 * FLOATS):
                check(base + (before - 1) * size + place, before + place / MIB)
        call("cuMemRelease", handle)
    call("cuMemUnmap", base, end - base)
    call("cuMemAddressFree", base, 1024 * MIB)


def segments() -> None:
    """As an allocator whose segments expand: small handles side by side, unmapped and mapped anew."""
    base = int(call("cuMemAddressReserve", 128 * MIB, 0, 0, 0))
    handles = [create(20 * MIB, POSIX_FD) for _ in range(3)] + [create(2 * MIB) for _ in range(3)]
    sizes = [20 * MIB] * 3 + [2 * MIB] * 3
    places = [base + sum(sizes[:number]) for number in range(6)]
    for handle, size, place in zip(handles, sizes, places, strict=True):
        call("cuMemMap", place, size, 0, handle, 0)
    call("cuMemSetAccess", base, sum(sizes), access(), 1)
    for number, place in enumerate(places):
        write(place, number + 1.0)
    call("cuMemUnmap", places[1], sizes[1])
    show("cuMemGetAccess", access()[0].location, places[1])
    for number in (0, 2, 3, 4, 5):
        check(places[number], number + 1.0)
    call("cuMemMap", base + 100 * MIB, sizes[1], 0, handles[1], 0)
    call("cuMemSetAccess", base + 100 * MIB, sizes[1], access(), 1)
    check(base + 100 * MIB, 2.0)
    call("cuMemUnmap", places[3], 3 * 2 * MIB)
    for handle in handles:
        call("cuMemRelease", handle)
    for number in (0, 2):
        check(places[number], number + 1.0)
    call("cuMemUnmap", base, 128 * MIB)
    call("cuMemAddressFree", base, 128 * MIB)


def twice() -> None:
    """One handle at two places, and at none."""
    base = int(call("cuMemAddressReserve", 512 * MIB, 0, 0, 0))
    size = 130 * MIB
    handle = create(size)
    for place in (base, base + 256 * MIB):
        call("cuMemMap", place, size, 0, handle, 0)
        call("cuMemSetAccess", place, size, access(), 1)
    write(base + 65 * MIB, 7.0)
    check(base + 256 * MIB + 65 * MIB, 7.0)
    write(base + 256 * MIB, 8.0)
    call("cuMemUnmap", base, size)
    check(base + 256 * MIB, 8.0)
    call("cuMemUnmap", base + 256 * MIB, size)
    step()
    call("cuMemMap", base + 2 * MIB, size, 0, handle, 0)
    call("cuMemSetAccess", base + 2 * MIB, size, access("READ"), 1)
    check(base + 2 * MIB, 8.0)
    check(base + 67 * MIB, 7.0)
    show("cuMemGetAccess", access()[0].location, base + 100 * MIB)
    call("cuMemSetAccess", base + 2 * MIB, size, access("NONE"), 1)
    show("cuMemGetAccess", access()[0].location, base + 100 * MIB)
    call("cuMemSetAccess", base + 2 * MIB, size, access(), 1)
    check(base + 67 * MIB, 7.0)
    call("cuMemRelease", handle)
    again = call("cuMemRetainAllocationHandle", base + 70 * MIB)
    print(int(again) == int(handle), flush=True)
    call("cuMemUnmap", base + 2 * MIB, size)
    call("cuMemMap", base, size, 0, again, 0)
    call("cuMemSetAccess", base, size, access(), 1)
    check(base, 8.0)
    call("cuMemRelease", again)
    call("cuMemUnmap", base, size)
    call("cuMemAddressFree", base, 512 * MIB)


def wrong() -> None:
    """Calls that a driver refuses, and what it says about addresses."""
    base = int(call("cuMemAddressReserve", 512 * MIB, 0, 0, 0))
    size = 128 * MIB
    handle, plain = create(size), int(call("cuMemAlloc", 4 * MIB))
    call("cuMemMap", base, size, 0, handle, 0)
    show("cuMemMap", base, size, 0, handle, 0)
    show("cuMemMap", base + 64 * MIB, size, 0, handle, 0)
    show("cuMemMap", base + 256 * MIB, 64 * MIB, 0, handle, 0)
    show("cuMemMap", base + 256 * MIB, 64 * MIB, 64 * MIB, handle, 0)
    show("cuMemMap", base + 448 * MIB, size, 0, handle, 0)
    show("cuMemMap", base + 256 * MIB + 4096, size, 0, handle, 0)
    show("cuMemMap", base + 256 * MIB, size, 0, handle, 1)
    show("cuMemMap", plain, 4 * MIB, 0, handle, 0)
    show("cuMemSetAccess", base, 64 * MIB, access(), 1)
    show("cuMemSetAccess", base, 2 * size, access(), 1)
    show("cuMemSetAccess", base, size, access(), 0)
    show("cuMemSetAccess", plain, 4 * MIB, access(), 1)
    show("cuMemGetAccess", access()[0].location, base + 64 * MIB)
    show("cuMemGetAccess", access()[0].location, base + 256 * MIB)
    show("cuMemGetAccess", access()[0].location, plain)
    show("cuMemUnmap", base, 64 * MIB)
    show("cuMemUnmap", base + 64 * MIB, 64 * MIB)
    show("cuMemUnmap", plain, 2 * MIB)
    show("cuMemAddressFree", base, 512 * MIB)
    show("cuMemAddressFree", plain, 2 * MIB)
    show("cuMemAddressFree", plain, 4 * MIB)
    show("cuMemRetainAllocationHandle", base + 256 * MIB)
    show("cuMemRetainAllocationHandle", plain)
    show("cuMemFree", base)
    show("cuMemRelease", int(handle) + 1)
    show("cuMemRelease", handle)
    show("cuMemRelease", handle)
    show("cuMemUnmap", base, 512 * MIB)
    show("cuMemUnmap", base, 512 * MIB)
    show("cuMemRelease", handle)
    show("cuMemMap", base, size, 0, handle, 0)
    show("cuMemAddressFree", base, 256 * MIB)
    show("cuMemAddressFree", base, 512 * MIB)
    show("cuMemUnmap", base, 512 * MIB)
    call("cuMemFree", plain)


def questions() -> None:
    """What a program is told about its mappings."""
    base = int(call("cuMemAddressReserve", 512 * MIB, 0, 0, 0))
    size = 130 * MIB
    handle = create(size)
    call("cuMemMap", base + 2 * MIB, size, 0, handle, 0)
    call("cuMemSetAccess", base + 2 * MIB, size, access(), 1)
    attributes = driver.CUpointer_attribute
    for place in (base + 2 * MIB, base + 100 * MIB + 4, base, base + 132 * MIB):
        result, start, length = driver.cuMemGetAddressRange(place)
        print("range", result.name, int(start) - base if int(result) == 0 else None, length, flush=True)
        step()
        for name in ("MEMORY_TYPE", "DEVICE_ORDINAL", "MAPPING_SIZE", "IS_MANAGED", "MAPPED", "ACCESS_FLAGS"):
            result, value = driver.cuPointerGetAttribute(getattr(attributes, f"CU_POINTER_ATTRIBUTE_{name}"), place)
            print(name, result.name, value if int(result) == 0 else None, flush=True)
            step()
    show("cuMemAddressFree", base, 512 * MIB)
    got = call("cuMemGetAllocationPropertiesFromHandle", handle)
    print(int(got.type), int(got.location.type), got.location.id, int(got.requestedHandleTypes), flush=True)
    call("cuMemUnmap", base + 2 * MIB, size)
    call("cuMemRelease", handle)
    call("cuMemAddressFree", base, 512 * MIB)


def exported() -> None:
    """A handle that others get to know, here this process itself."""
    base, size = int(call("cuMemAddressReserve", 256 * MIB, 0, 0, 0)), 100 * MIB
    handle, other = create(size, POSIX_FD), create(4 * MIB)
    call("cuMemMap", base, size, 0, handle, 0)
    call("cuMemSetAccess", base, size, access(), 1)
    write(base + 90 * MIB, 1.0)
    kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    descriptor = call("cuMemExportToShareableHandle", handle, kind, 0)
    print(driver.cuMemExportToShareableHandle(other, kind, 0)[0].name, flush=True)
    imported = call("cuMemImportFromShareableHandle", descriptor, kind)
    call("cuMemMap", base + 128 * MIB, size, 0, imported, 0)
    call("cuMemSetAccess", base + 128 * MIB, size, access(), 1)
    check(base + 218 * MIB, 1.0)
    write(base + 218 * MIB, 2.0)
    check(base + 90 * MIB, 2.0)
    call("cuMemUnmap", base, 256 * MIB)
    for one in (handle, other, imported):
        call("cuMemRelease", one)
    call("cuMemAddressFree", base, 256 * MIB)


def on_the_host() -> None:
    """Memory of the host, which NCCL makes by the same calls; the device copies to it from memory that moves."""
    base, size = int(call("cuMemAddressReserve", 64 * MIB, 0, 0, 0)), 4 * MIB
    plain = int(call("cuMemAlloc", 70 * MIB))
    wanted, users = properties(POSIX_FD), access() + access()
    for location in (wanted.location, users[0].location):
        location.type, location.id = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_HOST_NUMA, 0
    handle = call("cuMemCreate", size, wanted, 0)
    call("cuMemMap", base, size, 0, handle, 0)
    show("cuMemSetAccess", base, size, users, 2)
    show("cuMemGetAccess", access()[0].location, base)
    write(plain, 3.0)
    call("cuMemcpyDtoD", base, plain, 4 * FLOATS)
    call("cuCtxSynchronize")
    print(ctypes.c_float.from_address(base).value, flush=True)
    ctypes.c_float.from_address(base).value = 9.0
    step()
    print(opened().floats(base, 2), ctypes.c_float.from_address(base).value, flush=True)
    show("cuPointerGetAttribute", driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base)
    show("cuMemGetAllocationPropertiesFromHandle", handle)
    call("cuMemUnmap", base, size)
    call("cuMemRelease", handle)
    call("cuMemFree", plain)
    call("cuMemAddressFree", base, 64 * MIB)


if __name__ == "__main__":
    run(sys.argv[1], grows, segments, twice, wrong, questions, exported, on_the_host)
