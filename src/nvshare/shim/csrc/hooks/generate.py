"""Writes ``gated.inc`` and ``passed.inc``, most lines of ``hooks.def``, from ``cuda/entrypoints.tsv``.

A symbol that puts work into a stream gets a line here, unless ``hooks.def`` has a HOOK line for it: then its body is
written by hand. The stream is the parameter of type CUstream, or what one of type CUstream * points to, or that of a
launch configuration, or else the default stream. What copies, fills or moves memory gets COPY, with its operands that
may be another device's; BYTES and BYTES_ASYNC, if that is between two addresses. What puts no work anywhere but looks
at device memory (class ``LOOK``) gets LOOK. Both are in ``gated.inc``.

Every other symbol has a line in ``passed.inc``, by which it passes the door: PASS, or BODY if a body is written for it,
with what then keeps the process awake for ever. What the driver answers at any time has FREE, or passes by itself.

Run ``make generate`` after changing either of the two; a test compares the committed file with ``generate()``.
"""

from __future__ import annotations

import re
from pathlib import Path

from nvshare.cuda import entrypoints
from nvshare.cuda.entrypoints import EntryPoint, Parameter

HERE = Path(__file__).parent
HOOKS = HERE.parent / "hooks.def"
# Of a number, what it means: answered from tables, whatever became of the devices.
FREE = frozenset(("cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString"))
# What a checkpoint of the process, or its restore, may fail for once one of these has succeeded.
SLEEPLESS = {
    r"cuIpc(Get|Open)\w+": "it shares memory or events with other processes (CUDA IPC)",
    r"cuMem(Pool)?(ExportTo|ImportFrom)ShareableHandle|cuMemGetHandleForAddressRange"
    r"|cuLogicalEndpoint(Create|Import)": "it shares memory with other processes",
    r"cuMulticastCreate": "it has multicast objects",
    r"cuMemAllocManaged": "it has managed memory",
    r"cuImportExternal\w+|cuGraphics\w+Register\w+|cuGLRegisterBufferObject|cu(GL|VDPAU)CtxCreate\w*"
    r"|cuEGLStream\w+Connect\w*|cuStreamBeginCaptureToCig\w*": "it shares memory with a graphics library",
}
# The same of memory in handles and pools that is not a device's: where these are told what they are to make.
LOCATED = {
    "cuMemCreate": "prop->location.type",
    "cuMemPoolCreate": "poolProps->location.type",
    r"cuMemGet(Default)?MemPool": "location->type",
}
NOT_OF_A_DEVICE = "the driver made it host memory in a handle or a pool"
HEAD = """\
/* SPDX-License-Identifier: Apache-2.0 */
/* Made by generate.py from entrypoints.tsv and hooks.def. Not edited. */
"""


def is_gated(entry: EntryPoint) -> bool:
    """Whether an entry point puts work into a stream."""
    return entry.kind.startswith("GATE-") or entry.kind == "TRACK-STREAMOP"


def stream(entry: EntryPoint) -> str:
    """The C expression of the stream that the work goes to, in which NULL is the legacy default stream."""
    for parameter in entry.parameters:
        name = parameter.name
        if parameter.type == "CUstream":
            return _of_thread(entry, name)
        if parameter.type == "CUstream *":
            return _of_thread(entry, f"{name} ? *{name} : NULL")
        if parameter.type == "const CUlaunchConfig *":
            return _of_thread(entry, f"{name} ? {name}->stream : NULL")
    return "CU_STREAM_PER_THREAD" if entry.per_thread else "NULL"


def _of_thread(entry: EntryPoint, expression: str) -> str:
    return f"NVS_PER_THREAD({expression})" if entry.per_thread else expression


def operands(entry: EntryPoint) -> str:
    """The C expression, in the words of copy.c, of the devices whose memory is used; empty when it is not known."""
    if entry.kind not in ("GATE-COPY", "GATE-SET", "GATE-UM"):
        return ""
    counts = [parameter.name for parameter in entry.parameters if parameter.name in ("count", "numParams")]
    words = (_operand(parameter, counts[0] if counts else "1") for parameter in entry.parameters)
    return " | ".join(word for word in words if word)


def _operand(parameter: Parameter, count: str) -> str:
    match parameter.type:
        case "CUdeviceptr_v1" | "CUdeviceptr_v2":
            return f"of_pointer({parameter.name})"
        case "CUdeviceptr_v2 *":
            return f"of_pointers({parameter.name}, {count})"
        case "CUarray":
            return f"of_array({parameter.name})"
        case "CUdevice_v1":
            return f"of_ordinal({parameter.name})"
        case "CUmemLocation_v1":
            return f"of_location({parameter.name})"
        case "CUmemLocation_v1 *":
            return f"of_locations({parameter.name}, numPrefetchLocs)"
        case "CUDA_MEMCPY3D_BATCH_OP_v1 *":
            return f"of_batch({parameter.name}, {count})"
        case kind if kind.startswith(("const CUDA_MEMCPY2D_", "const CUDA_MEMCPY3D_")):
            return f"OF_SHAPE({parameter.name})"
        case _:
            return ""


def linear_sides(entry: EntryPoint) -> list[str]:
    """Where to and where from a call copies ``ByteCount`` bytes between addresses; empty: it does something else."""
    names = [parameter.name for parameter in entry.parameters]
    ends = names[3:] in ([], ["hStream"]) and names[2:3] == ["ByteCount"]
    wide = all(parameter.type in ("CUdeviceptr_v2", "void *", "const void *") for parameter in entry.parameters[:2])
    return names[:2] if ends and wide else []


def gate_line(entry: EntryPoint) -> str:
    """The line of ``gated.inc``."""
    arguments = ", ".join(parameter.name for parameter in entry.parameters)
    if entry.kind == "LOOK":
        return f"LOOK({entry.symbol}, {entry.signature}, ({arguments}))"
    gate = f"{entry.symbol}, {entry.signature}, ({arguments}), {stream(entry)}"
    if not (used := operands(entry)):
        return f"GATE({gate})"
    if not (sides := linear_sides(entry)):
        return f"COPY({gate}, {used})"
    word = "BYTES_ASYNC" if entry.parameters[-1].type == "CUstream" else "BYTES"
    return f"{word}({gate}, {used}, {', '.join(sides)})"


def passed_line(entry: EntryPoint, by_hand: bool) -> str:
    """The line of ``passed.inc``."""
    head = f"{entry.symbol}, {entry.signature}, ({', '.join(parameter.name for parameter in entry.parameters)})"
    if entry.symbol in FREE:
        return f"FREE({head})"
    return f"{'BODY' if by_hand or entry.kind == 'LOOK' else 'PASS'}({head}, {sleepless(entry.symbol)})"


def sleepless(symbol: str) -> str:
    """The C expression of why a process can't sleep in which this has succeeded; NULL: it can."""
    for pattern, text in SLEEPLESS.items():
        if re.fullmatch(pattern, symbol):
            return f'"{text}"'
    for pattern, location in LOCATED.items():
        if re.fullmatch(pattern, symbol):
            return f'{location} == CU_MEM_LOCATION_TYPE_DEVICE ? NULL : "{NOT_OF_A_DEVICE}"'
    return "NULL"


def generate() -> dict[Path, str]:
    """The generated files and what they must contain."""
    by_hand = set(re.findall(r"^HOOK\((\w+),", HOOKS.read_text(), re.MULTILINE))
    every = entrypoints.parse(entrypoints.LIST.read_text())
    gated = (entry for entry in every if is_gated(entry) or entry.kind == "LOOK")
    lines = [gate_line(entry) for entry in gated if entry.symbol not in by_hand]
    passed = (
        passed_line(entry, entry.symbol in by_hand)
        for entry in every
        if not is_gated(entry) and entry.kind != "RESOLVE"
    )
    return {
        HERE / "gated.inc": HEAD + "\n".join(lines) + "\n",
        HERE / "passed.inc": HEAD + "\n".join(passed) + "\n",
    }


if __name__ == "__main__":
    for path, content in generate().items():
        path.write_text(content)
