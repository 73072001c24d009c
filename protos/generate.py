"""Generates the Python stubs of the admin API from ``protos/admin.proto``.

Usage: ``python protos/generate.py [SOURCE_ROOT]``; without an argument into ``src``, where the result is committed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from grpc_tools import protoc

PROTOS = Path(__file__).resolve().parent
PACKAGE = "nvshare/admin"


def generate(source_root: Path) -> None:
    """Writes ``nvshare/admin/admin_pb2*`` below ``source_root``; raises RuntimeError when protoc refuses."""
    arguments = [
        "protoc",
        f"--proto_path={PACKAGE}={PROTOS}",
        f"--python_out={source_root}",
        f"--mypy_out={source_root}",
        f"--grpc_python_out={source_root}",
        f"--mypy_grpc_out={source_root}",
        f"{PACKAGE}/admin.proto",
    ]
    if protoc.main(arguments) != 0:
        raise RuntimeError("protoc refused admin.proto")


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else PROTOS.parent / "src")
