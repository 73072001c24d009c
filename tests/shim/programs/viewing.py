"""Prints what a program is told about memory: a name and a number a line."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

DRIVER = ctypes.CDLL("libcuda.so.1")
GIB = 1 << 30
MEMORY_TYPE, HOST_POINTER, IS_MANAGED, ORDINAL = 2, 4, 8, 9


def say(name: str, value: int) -> None:
    """One line."""
    print(name, value)


def memory() -> tuple[int, int]:
    """Free and total."""
    free, total = c_size_t(), c_size_t()
    assert DRIVER.cuMemGetInfo_v2(byref(free), byref(total)) == 0
    return free.value, total.value


def attribute(which: int, pointer: int) -> int:
    """One attribute of a pointer."""
    value = c_uint()
    assert DRIVER.cuPointerGetAttribute(byref(value), which, c_ulonglong(pointer)) == 0
    return value.value


def look_at(place: str, start: int, pointer: int) -> None:
    """All that is asked about a pointer."""
    say(f"{place}_type", attribute(MEMORY_TYPE, pointer))
    say(f"{place}_managed", attribute(IS_MANAGED, pointer))
    say(f"{place}_ordinal", attribute(ORDINAL, pointer))
    host = c_void_p()
    say(f"{place}_host_result", DRIVER.cuPointerGetAttribute(byref(host), HOST_POINTER, c_ulonglong(pointer)))
    kind, managed, address = c_uint(), c_uint(), c_void_p(1)
    names = (c_int * 3)(MEMORY_TYPE, IS_MANAGED, HOST_POINTER)
    places = (c_void_p * 3)(*(ctypes.addressof(value) for value in (kind, managed, address)))
    assert DRIVER.cuPointerGetAttributes(3, names, places, c_ulonglong(pointer)) == 0
    say(f"{place}_many_type", kind.value)
    say(f"{place}_many_managed", managed.value)
    say(f"{place}_many_host", address.value or 0)
    base, size = c_ulonglong(), c_size_t()
    assert DRIVER.cuMemGetAddressRange_v2(byref(base), byref(size), c_ulonglong(pointer)) == 0
    say(f"{place}_base_offset", base.value - start)
    say(f"{place}_size", size.value)


def main() -> None:
    """Looks at an empty device, at an allocation, and at one that is too large."""
    context, total, pointer, own = c_void_p(), c_size_t(), c_ulonglong(), c_ulonglong()
    assert DRIVER.cuInit(0) == 0
    assert DRIVER.cuDevicePrimaryCtxRetain(byref(context), 0) == 0
    assert DRIVER.cuCtxSetCurrent(context) == 0
    assert DRIVER.cuDeviceTotalMem_v2(byref(total), 0) == 0
    say("device_total", total.value)
    say("free", memory()[0])
    say("total", memory()[1])
    assert DRIVER.cuMemAlloc_v2(byref(pointer), c_size_t(GIB)) == 0
    say("free_after_1_gib", memory()[0])
    look_at("start", pointer.value, pointer.value)
    look_at("middle", pointer.value, pointer.value + GIB // 2)
    assert DRIVER.cuMemAllocManaged(byref(own), c_size_t(4096), 1) == 0
    say("own_managed", attribute(IS_MANAGED, own.value))
    assert DRIVER.cuMemFree_v2(own) == 0
    say("alloc_too_much", DRIVER.cuMemAlloc_v2(byref(own), c_size_t(20 * GIB)))
    say("free_after_too_much", memory()[0])


main()
