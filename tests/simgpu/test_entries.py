"""Entry points: all are there, and are found as a real driver lets them be found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nvshare.cuda import entrypoints
from nvshare.simgpu.csrc.cuda import generate
from tests.simgpu.conftest import ROOT, Clients

REQUESTS = sorted((ROOT / "tests" / "shim" / "cudart_requests").glob("log.*"))
DRIVER_VERSION = 13000
UNPUBLISHED = {"", "cuSubgridCreate", "cuSubgridWorkerGridCreate", "cuSubgridWorksetCreate"}
"""Names of which no header tells the parameters; a runtime asks for one without a name, too."""

LOOK_UP = """
import ctypes, json, sys
driver = ctypes.CDLL("libcuda.so.1")
answers = []
for name, version, flags in json.load(open(sys.argv[1])):
    address, status = ctypes.c_void_p(1), ctypes.c_int(77)
    arguments = name.encode(), ctypes.byref(address), version, ctypes.c_uint64(flags), ctypes.byref(status)
    result = driver.cuGetProcAddress_v2(*arguments)
    answers.append((result, address.value, status.value))
names = json.load(open(sys.argv[2]))
addresses = {name: ctypes.cast(getattr(driver, name), ctypes.c_void_p).value for name in names}
print(json.dumps({"answers": answers, "addresses": addresses}))
"""


ENTRIES = entrypoints.parse(entrypoints.LIST.read_text())


def expected(name: str, version: int, flags: int) -> str | None:
    """The symbol that a name stands for: the newest form that the version had."""
    forms = [entry for entry in ENTRIES if entry.base == name]
    threads = [entry for entry in forms if entry.per_thread]
    chosen = threads if flags & 2 and threads else [entry for entry in forms if not entry.per_thread]
    fitting = [entry for entry in chosen if entry.since <= version]
    return max(fitting, key=lambda entry: entry.since).symbol if fitting else None


def look_up(
    clients: Clients, folder: Path, questions: list[tuple[str, int, int]]
) -> tuple[list[list[int]], dict[str, int]]:
    """Asks cuGetProcAddress_v2 in a fresh process; also gives the address of every exported symbol."""
    asked, named = folder / "questions.json", folder / "names.json"
    asked.write_text(json.dumps(questions))
    named.write_text(json.dumps([entry.symbol for entry in ENTRIES]))
    found = json.loads(clients.run(f"import sys; sys.argv[1:] = [{str(asked)!r}, {str(named)!r}]\n{LOOK_UP}"))
    return found["answers"], found["addresses"]


def test_generated_files_are_fresh() -> None:
    """The tables of entry points are those of the list and the C files."""
    stale = [path.name for path, content in generate.generate().items() if path.read_text() != content]
    assert not stale, "run make generate"


@pytest.mark.parametrize("flags", [0, 1, 2, 3])
def test_every_name_at_every_version(clients: Clients, tmp_path: Path, flags: int) -> None:
    """An answer is an exported symbol's own address: the newest form that the version had, of the asked-for kind."""
    versions = sorted({entry.since for entry in ENTRIES if entry.since <= DRIVER_VERSION})
    questions = [(name, version, flags) for name in sorted({entry.base for entry in ENTRIES}) for version in versions]
    answers, addresses = look_up(clients, tmp_path, questions)
    assert len(set(addresses.values())) == len(addresses)
    for question, (result, address, status) in zip(questions, answers, strict=True):
        symbol = expected(*question)
        assert (result, address, status) == ((0, addresses[symbol], 0) if symbol else (0, None, 2)), question


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.name)
def test_recorded_requests(clients: Clients, tmp_path: Path, path: Path) -> None:
    """What a CUDA runtime asks for at its start is all there, except what is newer than the simulated driver."""
    requests = [line.split(" ") for line in path.read_text().splitlines() if not line.startswith("dlsym ")]
    questions = [
        (name, int(version), int(flags)) for _, name, version, flags in requests if int(version) <= DRIVER_VERSION
    ]
    known = {entry.base for entry in ENTRIES}
    assert {name for _, name, _, _ in requests} - known - {entry.symbol for entry in ENTRIES} <= UNPUBLISHED
    answers, addresses = look_up(clients, tmp_path, questions)
    for question, (result, address, _) in zip(questions, answers, strict=True):
        symbol = expected(*question)
        assert result == 0
        assert address == (addresses[symbol] if symbol else None), question
        assert symbol or question[0] not in known or question[1] == 0
    assert len(questions) > 100
