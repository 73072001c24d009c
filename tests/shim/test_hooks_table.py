"""hooks.def against the list of the driver's entry points, and the library against hooks.def."""

from __future__ import annotations

import re

import pytest

from tests.build import elf
from tests.conftest import Libraries
from tests.shim.entrypoints import EntryPoint, entry_points, table

POINTS = {point.symbol: point for point in entry_points()}
ROWS = {row.symbol: row for row in table()}


def test_every_submission_is_gated() -> None:
    """Whatever puts work into a stream is hooked, in every version and form."""
    assert {point.symbol for point in POINTS.values() if point.gated} <= hooked()


def test_every_allocation_is_accounted() -> None:
    """Whatever allocates or frees device memory is hooked, in every version and form."""
    kinds = {"ALLOC", "ALLOC-GRAPH", "FREE"}
    assert {point.symbol for point in POINTS.values() if point.kind in kinds} <= hooked()


def test_every_capture_and_context_is_followed() -> None:
    """Captures' begins and ends, contexts' and streams' ends, and the look-up are hooked, in every version and form."""
    verbs = "BeginCapture|BeginRecapture|EndCapture|CtxCreate|CtxDestroy|CtxRe|StreamDestroy|ProcAddress"
    followed = {symbol for symbol in POINTS if re.search(verbs, symbol)}
    ignored = {"cuGreenCtxDestroy", "cuGreenCtxRecordEvent", "cuCtxRecordEvent", "cuCtxResetPersistingL2Cache"}
    assert followed - ignored <= hooked()


def test_no_symbol_twice() -> None:
    """A symbol has one line."""
    assert len(ROWS) == len(table())


@pytest.mark.parametrize("symbol", ROWS)
def test_parameters_are_the_drivers(symbol: str) -> None:
    """A line declares the parameters that the list gives."""
    assert ROWS[symbol].parameters == POINTS[symbol].parameters


@pytest.mark.parametrize("symbol", [row.symbol for row in ROWS.values() if row.macro == "GATE"])
def test_gate_belongs_to_the_right_stream(symbol: str) -> None:
    """NULL is the legacy default stream, but the thread's own in the forms that say so; a stream parameter is used."""
    assert ROWS[symbol].stream == expected_stream(POINTS[symbol])


def test_exports(libraries: Libraries) -> None:
    """The library offers the hooks and dlsym, and nothing else."""
    assert elf.read(libraries.shim).exports == hooked() | {"dlsym"}


def hooked() -> set[str]:
    """The symbols that are replaced."""
    return {row.symbol for row in ROWS.values() if row.macro != "CALL"}


def expected_stream(point: EntryPoint) -> str:
    """The C expression of the stream."""
    if point.base == "cuLaunchKernelEx":
        stream = "config ? config->stream : NULL"
    elif "CUstream" in point.parameters:
        stream = "stream" if point.symbol in STREAM_FIRST else "hStream"
    else:
        return "CU_STREAM_PER_THREAD" if point.per_thread else "NULL"
    return f"NVS_PER_THREAD({stream})" if point.per_thread else stream


# Their parameter is called `stream`.
STREAM_FIRST = {
    symbol
    for symbol in POINTS
    if re.match("cuStreamWait|cuStreamWrite|cuStreamBatchMemOp|cuMemBatchDecompress|cuSignal|cuWait", symbol)
}
