"""Describes ``nvshare._core``, the extension that Python and C share: the wire's layout and the library's pure C parts.

setuptools runs this file from the project's folder (``cffi_modules``). What Python sees of a header is what stands
between its two ``cdef`` marks, so every declaration is written once, and the C compiler checks it.
"""

from __future__ import annotations

from pathlib import Path

from cffi import FFI  # type: ignore[import-untyped]

PACKAGE = Path("src/nvshare")
CSRC = "shim/csrc"
HEADERS = (
    "protocol/wire.h",
    "protocol/gang.h",
    "protocol/report.h",
    f"{CSRC}/process/on_missing.h",
    f"{CSRC}/process/digest.h",
    f"{CSRC}/client/lock_types.h",
    f"{CSRC}/client/lock_state.h",
    f"{CSRC}/client/lock_words.h",
    f"{CSRC}/driver/nvml_abi.h",
    f"{CSRC}/gate/lead.h",
    f"{CSRC}/gate/pace.h",
    f"{CSRC}/memory/account.h",
    f"{CSRC}/memory/room_state.h",
    f"{CSRC}/memory/swap/granules.h",
    f"{CSRC}/memory/swap/addresses.h",
    f"{CSRC}/memory/swap/slabs.h",
    f"{CSRC}/ties/tie_list.h",
)
SOURCES = (
    f"{CSRC}/client/lock_link.c",
    f"{CSRC}/client/lock_rules.c",
    f"{CSRC}/client/lock_state.c",
    f"{CSRC}/client/lock_words.c",
    f"{CSRC}/gate/lead.c",
    f"{CSRC}/gate/pace.c",
    f"{CSRC}/memory/account.c",
    f"{CSRC}/memory/room_say.c",
    f"{CSRC}/memory/room_state.c",
    f"{CSRC}/memory/swap/granules.c",
    f"{CSRC}/memory/swap/addresses.c",
    f"{CSRC}/memory/swap/slabs.c",
    f"{CSRC}/process/digest.c",
    f"{CSRC}/ties/tie_list.c",
)


def declarations(header: Path) -> str:
    """The part of a header that cffi is to read."""
    return header.read_text(encoding="utf-8").split("/* cdef begin */", 1)[1].split("/* cdef end */", 1)[0]


def make() -> FFI:
    """The extension's description; paths are relative to the project's folder."""
    builder = FFI()
    builder.cdef("".join(declarations(PACKAGE / header) for header in HEADERS))
    builder.set_source(
        "nvshare._core",
        "".join(f'#include "{header}"\n' for header in HEADERS),
        sources=[str(PACKAGE / source) for source in SOURCES],
        include_dirs=[str(PACKAGE), str(PACKAGE / CSRC)],
        depends=[str(PACKAGE / header) for header in HEADERS],
        py_limited_api=True,
    )
    return builder


ffibuilder = make()
