"""hooks.def against the list of the driver's entry points, and the library against hooks.def."""

from __future__ import annotations

import re

import pytest

from tests.build import elf
from tests.conftest import Libraries
from tests.shim import entrypoints
from tests.shim.entrypoints import bodies, entry_points, is_gated, table, types_of

POINTS = {point.symbol: point for point in entry_points()}
ROWS = {row.symbol: row for row in table()}
EXPANDED = ("GATE", "COPY", "BYTES", "BYTES_ASYNC")
"""Whose bodies pass the gate of a stream."""
GATED = [row.symbol for row in ROWS.values() if row.macro in EXPANDED]


def test_every_entry_point_has_a_line() -> None:
    """Whatever a driver exports is known, in every version and form."""
    assert POINTS.keys() == ROWS.keys()


def test_every_submission_is_gated() -> None:
    """Whatever puts work into a stream is hooked, in every version and form."""
    assert {point.symbol for point in POINTS.values() if is_gated(point)} <= done()


def test_every_allocation_is_accounted() -> None:
    """Whatever allocates or frees device memory is hooked, in every version and form."""
    kinds = {"ALLOC", "ALLOC-GRAPH", "FREE"}
    assert {point.symbol for point in POINTS.values() if point.kind in kinds} <= done()


def test_every_call_passes_gate_or_door() -> None:
    """All but what the driver answers at any time: look-ups, and questions about numbers."""
    free = {row.symbol for row in ROWS.values() if row.macro == "FREE"}
    look_ups = {"cuGetProcAddress", "cuGetProcAddress_v2", "cuGetExportTable"}
    assert free == {"cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString"}
    passed = {row.symbol for row in ROWS.values() if row.macro == "PASS"} | bodies().keys()
    assert not passed & {symbol for symbol, point in POINTS.items() if is_gated(point)}
    assert POINTS.keys() - passed == {s for s, point in POINTS.items() if is_gated(point)} | free | look_ups


@pytest.mark.parametrize("symbol", bodies())
def test_door_hands_on_what_it_got(symbol: str) -> None:
    """A body gets every parameter, in order."""
    types, arguments = bodies()[symbol]
    assert types == types_of(POINTS[symbol])
    assert arguments == tuple(parameter.name for parameter in POINTS[symbol].parameters)


def test_every_capture_and_context_is_followed() -> None:
    """Captures' begins and ends, contexts' and streams' ends, and the look-up are hooked, in every version and form."""
    verbs = "BeginCapture|BeginRecapture|EndCapture|CtxCreate|CtxDestroy|CtxRe|StreamDestroy|ProcAddress"
    followed = {symbol for symbol in POINTS if re.search(verbs, symbol)}
    ignored = {"cuGreenCtxDestroy", "cuGreenCtxRecordEvent", "cuCtxRecordEvent", "cuCtxResetPersistingL2Cache"}
    assert followed - ignored <= done()


def test_no_symbol_twice() -> None:
    """A symbol has one line."""
    assert len(ROWS) == len(table())


@pytest.mark.parametrize("symbol", ROWS)
def test_parameters_are_the_drivers(symbol: str) -> None:
    """A line declares the parameters that the list gives."""
    assert ROWS[symbol].parameters == types_of(POINTS[symbol])


def test_few_submissions_have_a_body_of_their_own() -> None:
    """What is gated by hand, and so is not generated: launches of graphs and what concerns two or more devices."""
    by_hand = {symbol for symbol in done() if is_gated(POINTS[symbol]) and ROWS[symbol].macro == "HOOK"}
    assert by_hand == {
        "cuGraphLaunch",
        "cuGraphLaunch_ptsz",
        "cuLaunchCooperativeKernelMultiDevice",
        "cuMemcpyPeer",
        "cuMemcpyPeer_ptds",
        "cuMemcpyPeerAsync",
        "cuMemcpyPeerAsync_ptsz",
        "cuMemcpy3DPeer",
        "cuMemcpy3DPeer_ptds",
        "cuMemcpy3DPeerAsync",
        "cuMemcpy3DPeerAsync_ptsz",
    }


@pytest.mark.parametrize("symbol", [row.symbol for row in ROWS.values() if row.macro != "HOOK"])
def test_gate_hands_on_what_it_got(symbol: str) -> None:
    """The driver's function gets every parameter, in order."""
    assert ROWS[symbol].arguments == ROWS[symbol].names


@pytest.mark.parametrize("symbol", GATED)
def test_gate_belongs_to_the_right_stream(symbol: str) -> None:
    """NULL is the legacy default stream, but the thread's own in the forms that say so; a stream parameter is used.

    The list is generated from the types of the parameters and the list's column of variants; here the names of the
    parameters and of the symbol say what to expect.
    """
    row = ROWS[symbol]
    per_thread = symbol.endswith(("_ptsz", "_ptds"))
    streams = [name for name in row.names if name in ("hStream", "stream")]
    if "config" in row.names:
        streams = ["config ? config->stream : NULL"]
    if "pStream" in row.names:
        streams = ["pStream ? *pStream : NULL"]
    if streams:
        assert row.stream == (f"NVS_PER_THREAD({streams[0]})" if per_thread else streams[0])
    else:
        assert row.stream == ("CU_STREAM_PER_THREAD" if per_thread else "NULL")
        assert not re.search(r"Async|cuStream|cuGraph|Kernel", symbol), "it has a stream of a name not known here"


def test_every_copy_and_fill_knows_its_operands() -> None:
    """What copies, fills or moves device memory looks at all that names memory or a device, if its layout is known."""
    of_memory = {"CUdeviceptr_v1", "CUdeviceptr_v2", "CUarray", "CUdevice_v1", "CUmemLocation_v1"}
    kinds = {"GATE-COPY", "GATE-SET", "GATE-UM"}
    for symbol, row in ROWS.items():
        point = POINTS[symbol]
        if row.macro not in EXPANDED or point.kind not in kinds:
            continue
        used = [
            parameter.name
            for parameter in point.parameters
            if parameter.type.removesuffix(" *") in of_memory or "MEMCPY" in parameter.type
        ]
        assert re.findall(r"(?:of|OF)_\w+\((\w+)", row.operands) == used, symbol
        assert used or symbol.startswith("cuFabricCpyBatchAsync"), symbol


@pytest.mark.parametrize(
    ("symbol", "operands"),
    [
        ("cuMemcpy", "of_pointer(dst) | of_pointer(src)"),
        ("cuMemcpyHtoDAsync_v2", "of_pointer(dstDevice)"),
        ("cuMemcpyAtoD_v2", "of_pointer(dstDevice) | of_array(srcArray)"),
        ("cuMemcpy2DAsync_v2", "OF_SHAPE(pCopy)"),
        ("cuMemcpyBatchAsync_v2", "of_pointers(dsts, count) | of_pointers(srcs, count)"),
        ("cuMemcpy3DBatchAsync_v2", "of_batch(opList, numParams)"),
        ("cuMemcpy3DWithAttributesAsync", "of_batch(op, 1)"),
        ("cuMemsetD32Async", "of_pointer(dstDevice)"),
        ("cuMemPrefetchAsync_v2", "of_pointer(devPtr) | of_location(location)"),
        ("cuMemAdvise", "of_pointer(devPtr) | of_ordinal(device)"),
        ("cuLaunchKernel", ""),
    ],
)
def test_operands_of_well_known_functions(symbol: str, operands: str) -> None:
    """What one function of each kind copies from and to."""
    assert ROWS[symbol].operands == operands


@pytest.mark.parametrize(
    ("symbol", "stream"),
    [
        ("cuLaunchKernel", "hStream"),
        ("cuLaunchKernel_ptsz", "NVS_PER_THREAD(hStream)"),
        ("cuLaunchKernelEx", "config ? config->stream : NULL"),
        ("cuLaunchKernelEx_ptsz", "NVS_PER_THREAD(config ? config->stream : NULL)"),
        ("cuLaunchGrid", "NULL"),
        ("cuLaunchGridAsync", "hStream"),
        ("cuGraphUpload", "hStream"),
        ("cuMemcpy", "NULL"),
        ("cuMemcpy_ptds", "CU_STREAM_PER_THREAD"),
        ("cuMemcpyHtoDAsync_v2", "hStream"),
        ("cuMemcpyHtoDAsync_v2_ptsz", "NVS_PER_THREAD(hStream)"),
        ("cuMemsetD8_v2", "NULL"),
        ("cuMemsetD2D32Async", "hStream"),
        ("cuMemAdvise", "NULL"),
        ("cuStreamAttachMemAsync", "hStream"),
        ("cuStreamWaitValue32_v2_ptsz", "NVS_PER_THREAD(stream)"),
        ("cuStreamBatchMemOp_v2", "stream"),
        ("cuMemBatchDecompressAsync", "stream"),
        ("cuSignalExternalSemaphoresAsync", "stream"),
        ("cuGraphicsMapResources_ptsz", "NVS_PER_THREAD(hStream)"),
        ("cuGLMapBufferObject_v2_ptds", "CU_STREAM_PER_THREAD"),
        ("cuGLUnmapBufferObject", "NULL"),
        ("cuEGLStreamProducerPresentFrame", "pStream ? *pStream : NULL"),
    ],
)
def test_streams_of_well_known_functions(symbol: str, stream: str) -> None:
    """What the driver's documentation says of one function of each kind."""
    assert ROWS[symbol].stream == stream


def test_exports(libraries: Libraries) -> None:
    """The library offers the hooks, NCCL's functions, the dynamic loader's, and what limit() asks; nothing else."""
    others = {"dlsym", "dlvsym", "dlopen", "dlmopen", "nvs_terms_are_read"}
    assert elf.read(libraries.shim).exports == ROWS.keys() | others | set(entrypoints.nccl_calls())


def done() -> set[str]:
    """The symbols for which more is done than to pass the door."""
    return {row.symbol for row in ROWS.values() if row.macro not in ("PASS", "FREE")}
