"""Writes ``entry/entries.inc`` and ``entry/prototypes.inc`` from ``cuda/entrypoints.tsv`` and the C files below here.

Every symbol of the list becomes one line of ``entries.inc``. A function ``sim_SYMBOL`` in a C file implements SYMBOL:

* a ``_ptsz`` or ``_ptds`` form calls the implementation of its default form, with the thread's default stream in place
  of NULL; where the signature has no stream, the implementation takes one more parameter, which says what NULL means;
* an older form that differs from its ``_v2`` only in the width of what it passes by value calls that one;
* a symbol without an implementation answers CUDA_ERROR_NOT_SUPPORTED.

Run ``make generate`` after adding an implementation; a test compares the committed files with ``generate()``.
"""

from __future__ import annotations

import re
from pathlib import Path

from nvshare.cuda import entrypoints
from nvshare.cuda.entrypoints import EntryPoint, Parameter

HERE = Path(__file__).parent
TABLES = HERE / "entry"
# Entry points that work before cuInit and in a forked child.
EARLY = frozenset(
    (
        "cuInit",
        "cuDriverGetVersion",
        "cuGetErrorName",
        "cuGetErrorString",
        "cuGetProcAddress",
        "cuGetProcAddress_v2",
        "cuGetExportTable",
        "cuCheckpointProcessGetState",
        "cuCheckpointProcessGetRestoreThreadId",
        "cuCheckpointProcessLock",
        "cuCheckpointProcessCheckpoint",
        "cuCheckpointProcessRestore",
        "cuCheckpointProcessUnlock",
    )
)
# What a process may call while another one has it locked; all else waits. A real driver was asked about those that
# tests/simgpu/programs/checkpoint/probes.py names; the others are taken to be like these.
QUERY = re.compile(
    r"cu(?!Module|Library|Kernel|CtxGetLimit|Ipc)\w*(Get|Query|Synchronize|IsCapturing)\w*"
    r"|cuCtx(Set|Push|Pop)Current\w*|cuDevicePrimaryCtxRetain|cuDeviceTotalMem\w*|cuMemAddressReserve"
)
HEAD = """\
/* SPDX-License-Identifier: Apache-2.0 */
/* Made by generate.py from entrypoints.tsv and the C files. Not edited. */
"""
WIDENED = {"CUdeviceptr_v1": "CUdeviceptr_v2", "unsigned int": "size_t"}


def is_stream(parameter: Parameter) -> bool:
    """Whether a parameter is a stream that may be NULL."""
    return parameter.type == "CUstream"


def default_form(entry: EntryPoint) -> str:
    """The symbol without the suffix of the per-thread forms."""
    return entry.symbol.removesuffix("_ptsz").removesuffix("_ptds")


def implemented(folder: Path) -> frozenset[str]:
    """The symbols that the C files implement."""
    found = (
        re.findall(r"^CUresult\s+sim_(cu[A-Z]\w+)\(", path.read_text(), re.M) for path in sorted(folder.rglob("*.c"))
    )
    return frozenset(name for names in found for name in names)


def takes_null_stream(entry: EntryPoint, entries: dict[str, EntryPoint]) -> bool:
    """Whether the implementation needs to be told what a NULL stream means, because no parameter is a stream."""
    forms = (default_form(entry) + suffix for suffix in ("_ptsz", "_ptds"))
    return any(form in entries for form in forms) and not any(is_stream(p) for p in entry.parameters)


def narrow_form_of(entry: EntryPoint, done: frozenset[str], entries: dict[str, EntryPoint]) -> str | None:
    """The implemented newer form that this older one can call, if there is one."""
    for version in ("_v2", "_v3"):
        newer = entries.get(f"{default_form(entry)}{version}")
        if newer is None or newer.symbol not in done or len(newer.parameters) != len(entry.parameters):
            continue
        pairs = zip(entry.parameters, newer.parameters, strict=True)
        if all(old.type == new.type or WIDENED.get(old.type) == new.type for old, new in pairs):
            return newer.symbol
    return None


def call(entry: EntryPoint, done: frozenset[str], entries: dict[str, EntryPoint]) -> str | None:
    """The C expression that carries an entry point out; None: it is not simulated."""
    target: str | None = default_form(entry)
    if target not in done:
        target = narrow_form_of(entry, done, entries)
    if target is None:
        return None
    arguments = [f"SIM_PER_THREAD({p.name})" if entry.per_thread and is_stream(p) else p.name for p in entry.parameters]
    if takes_null_stream(entries[target], entries):
        arguments.append("CU_STREAM_PER_THREAD" if entry.per_thread else "CU_STREAM_LEGACY")
    return f"sim_{target}({', '.join(arguments)})"


def entry_line(entry: EntryPoint, done: frozenset[str], entries: dict[str, EntryPoint]) -> str:
    """The line of ``entries.inc`` for one symbol."""
    variant = "THREAD" if entry.per_thread else "DEFAULT"
    head = f"{entry.base}, {entry.since}, {variant}, {entry.symbol}, {entry.signature}"
    expression = call(entry, done, entries)
    if expression is None:
        return f"SIM_MISSING({head})"
    if entry.symbol in EARLY:
        return f"SIM_EARLY({head}, {expression})"
    return f"{'SIM_QUERY' if QUERY.fullmatch(entry.symbol) else 'SIM_ENTRY'}({head}, {expression})"


def prototype(entry: EntryPoint, entries: dict[str, EntryPoint]) -> str:
    """The declaration of an implementation."""
    parameters = [f"{p.type}{'' if p.type.endswith('*') else ' '}{p.name}" for p in entry.parameters]
    if takes_null_stream(entry, entries):
        parameters.append("CUstream null_stream")
    return f"CUresult sim_{entry.symbol}({', '.join(parameters) or 'void'});"


def generate() -> dict[Path, str]:
    """The generated files and what they must contain."""
    listed = entrypoints.parse(entrypoints.LIST.read_text())
    entries = {entry.symbol: entry for entry in listed}
    done = implemented(HERE)
    if unknown := done - entries.keys():
        raise ValueError(f"no such entry points: {sorted(unknown)}")
    lines = (entry_line(entry, done, entries) for entry in listed)
    prototypes = (prototype(entry, entries) for entry in listed if entry.symbol in done)
    return {
        TABLES / "entries.inc": HEAD + "\n".join(lines) + "\n",
        TABLES / "prototypes.inc": HEAD + "\n".join(prototypes) + "\n",
    }


if __name__ == "__main__":
    for path, content in generate().items():
        path.write_text(content)
