"""What a shared library asks for and offers, as binutils' readelf tells it; for libraries of any machine."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests import wanted

_DYNAMIC = re.compile(r"\((?P<tag>\w+)\)\s+(?:Shared library|Library soname)?:? ?\[?(?P<value>[^\]\n]*)")
_SYMBOL = re.compile(
    r"^\s*\d+: [0-9a-f]+\s+\S+ (?P<type>\w+)\s+(?P<bind>\w+)\s+(?P<visibility>\w+)\s+(?P<section>\w+) (?P<name>[\w.]+)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Elf:
    """The dynamic section and symbols of one library."""

    machine: str
    """As in ``platform.machine()``."""
    tags: frozenset[str]
    needed: frozenset[str]
    soname: str
    exports: frozenset[str]
    wanted: frozenset[str]
    """Undefined symbols without which the library does not load."""
    glibc_versions: frozenset[tuple[int, ...]]
    executable_stack: bool


def read(path: Path) -> Elf:
    """Reads a library; raises CalledProcessError for what is none. Without readelf the test is skipped."""
    dynamic = list(_DYNAMIC.finditer(_readelf("-d", path)))
    symbols = list(_SYMBOL.finditer(_readelf("--dyn-syms", path)))
    versions = re.findall(r"Name: GLIBC_([\d.]+)", _readelf("-V", path))
    stack = re.search(r"GNU_STACK.*", _readelf("-l", path))
    machine = re.search(r"Machine: +(?:Advanced Micro Devices )?(\S+)", _readelf("-h", path))
    assert machine is not None
    return Elf(
        machine=machine[1].lower().replace("-", "_"),
        tags=frozenset(match["tag"] for match in dynamic),
        needed=frozenset(match["value"] for match in dynamic if match["tag"] == "NEEDED"),
        soname=next((match["value"] for match in dynamic if match["tag"] == "SONAME"), ""),
        exports=frozenset(match["name"] for match in symbols if match["section"] != "UND" and match["bind"] != "LOCAL"),
        wanted=frozenset(match["name"] for match in symbols if match["section"] == "UND" and match["bind"] == "GLOBAL"),
        glibc_versions=frozenset(tuple(int(part) for part in version.split(".")) for version in versions),
        executable_stack=stack is None or "E" in stack[0].split()[-2],
    )


def defined_globals(path: Path) -> set[str]:
    """The names that an object file gives to the others that it is linked with."""
    symbols = _SYMBOL.finditer(_readelf("-s", path))
    return {match["name"] for match in symbols if match["section"] != "UND" and match["bind"] in ("GLOBAL", "WEAK")}


def _readelf(option: str, path: Path) -> str:
    command = [wanted.tool("readelf"), "-W", option, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
