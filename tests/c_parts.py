"""The library's pure C parts, as Python calls them in tests: ``ffi`` knows their types, ``lib`` their functions.

What Python sees of a header is what stands between its two ``cdef`` marks, so every declaration is written once;
``tests/protocol/test_c_agrees.py`` has the C compiler check what cffi makes of them.
"""

from __future__ import annotations

import platform
from dataclasses import replace
from typing import Any

from cffi import FFI  # type: ignore[import-untyped]

import build_native
from protos.generate import declarations

CSRC = "shim/csrc"
HEADERS = (
    "protocol/wire.h",
    "protocol/size.h",
    "protocol/gang.h",
    "protocol/catalogue.h",
    "protocol/report.h",
    f"{CSRC}/process/on_missing.h",
    f"{CSRC}/process/digest.h",
    f"{CSRC}/process/sizes.h",
    f"{CSRC}/client/lock_types.h",
    f"{CSRC}/client/lock_state.h",
    f"{CSRC}/driver/nvml_abi.h",
    f"{CSRC}/gate/lead.h",
    f"{CSRC}/gate/pace.h",
    f"{CSRC}/memory/account.h",
    f"{CSRC}/memory/room_state.h",
    f"{CSRC}/memory/swap/granules.h",
    f"{CSRC}/memory/away/sum.h",
    f"{CSRC}/memory/swap/addresses.h",
    f"{CSRC}/memory/swap/slabs.h",
    f"{CSRC}/ties/tie_list.h",
)
SOURCES = (
    f"{CSRC}/client/lock_rules.c",
    f"{CSRC}/client/lock_state.c",
    f"{CSRC}/gate/lead.c",
    f"{CSRC}/gate/pace.c",
    f"{CSRC}/memory/account.c",
    f"{CSRC}/memory/room_say.c",
    f"{CSRC}/memory/room_state.c",
    f"{CSRC}/memory/swap/granules.c",
    f"{CSRC}/memory/away/sum.c",
    f"{CSRC}/memory/swap/addresses.c",
    f"{CSRC}/memory/swap/slabs.c",
    f"{CSRC}/process/digest.c",
    f"{CSRC}/process/log.c",
    f"{CSRC}/process/mutex.c",
    f"{CSRC}/process/sizes.c",
    f"{CSRC}/process/thread.c",
    f"{CSRC}/ties/tie_list.c",
)

LIBRARY = build_native.Library("libparts.so", "tests", (CSRC,), ("-fvisibility=default",), files=SOURCES)
TARGET = replace(
    build_native.TARGETS[platform.machine()], name="parts", package_root=build_native.ROOT / "build" / "parts"
)

ffi: Any = FFI()
ffi.cdef("".join(declarations(build_native.SOURCES / "nvshare" / header) for header in HEADERS))
(_PATH,) = build_native.build(TARGET, (LIBRARY,))
lib: Any = ffi.dlopen(str(_PATH))
