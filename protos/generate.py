"""Generates what Python knows of every protocol: stubs of the APIs in ``protos/``, and the layout of what C shares.

Usage: ``python protos/generate.py [SOURCE_ROOT]``; without an argument into ``src``, where the result is committed.

The layout is of the headers in ``src/nvshare/protocol``. cffi reads what stands between the two ``cdef`` marks of each,
so every declaration is written once; a test has the C compiler check what cffi makes of it. Whoever installs nvshare
needs neither that parser nor a compiler or headers for Python.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cffi import FFI  # type: ignore[import-untyped]
from grpc_tools import protoc

PROTOS = Path(__file__).resolve().parent
HEADERS = PROTOS.parent / "src" / "nvshare" / "protocol"
SHARED = ("wire.h", "gang.h", "catalogue.h", "report.h")
LAYOUT = "nvshare/protocol/layout.py"
# The package that holds the stubs, and the files that they are made from.
PACKAGES = {
    "nvshare/admin": ("admin.proto",),
    "nvshare/kubelet": (
        "deviceplugin_v1beta1.proto",
        "podresources_v1.proto",
        "dra_v1.proto",
        "drahealth_v1alpha1.proto",
        "pluginregistration_v1.proto",
    ),
}


def generate(source_root: Path) -> None:
    """Writes the stubs of every package below ``source_root``; raises RuntimeError when protoc refuses a file."""
    for package, names in PACKAGES.items():
        arguments = [
            "protoc",
            f"--proto_path={package}={PROTOS}",
            f"--python_out={source_root}",
            f"--mypy_out={source_root}",
            f"--grpc_python_out={source_root}",
            f"--mypy_grpc_out={source_root}",
            *(f"{package}/{name}" for name in names),
        ]
        if protoc.main(arguments) != 0:
            raise RuntimeError(f"protoc refused {' or '.join(names)}")


def declarations(header: Path) -> str:
    """The part of a header that cffi is to read."""
    return header.read_text(encoding="utf-8").split("/* cdef begin */", 1)[1].split("/* cdef end */", 1)[0]


def generate_layout(source_root: Path) -> None:
    """Writes the module ``nvshare.protocol.layout`` below ``source_root``."""
    output = source_root / LAYOUT
    output.parent.mkdir(parents=True, exist_ok=True)
    builder = FFI()
    builder.cdef("".join(declarations(HEADERS / name) for name in SHARED))
    builder.set_source("nvshare.protocol.layout", None)
    builder.emit_python_code(str(output))
    with output.open("a", encoding="utf-8") as file:
        file.write("lib = ffi.dlopen(None)\n")


if __name__ == "__main__":
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else PROTOS.parent / "src"
    generate(root)
    generate_layout(root)
