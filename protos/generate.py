"""Generates the Python stubs of every API in ``protos/``.

Usage: ``python protos/generate.py [SOURCE_ROOT]``; without an argument into ``src``, where the result is committed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from grpc_tools import protoc

PROTOS = Path(__file__).resolve().parent
# The package that holds the stubs, and the files that they are made from.
PACKAGES = {
    "nvshare/admin": ("admin.proto",),
    "nvshare/kubelet": ("deviceplugin_v1beta1.proto", "podresources_v1.proto"),
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


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else PROTOS.parent / "src")
