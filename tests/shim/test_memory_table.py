"""Every entry point that is given device memory, and what becomes of it while that memory is out.

Memory that swaps has no device memory behind its addresses while another process has its turn. So an entry point that
is given an address or a handle of memory either waits at the gate, or is answered without the driver, or does not care.
"""

from __future__ import annotations

import re

import pytest

from nvshare.cuda.entrypoints import EntryPoint
from tests.shim.entrypoints import PACKAGE, entry_points, is_gated, table

HOOKS = PACKAGE / "shim" / "csrc" / "hooks"
ROWS = {row.symbol: row for row in table()}

OF_MEMORY = re.compile(
    r"CUdeviceptr|GenericAllocationHandle|CUDA_MEMCPY|NODE_PARAMS|CUgraphNodeParams|RESOURCE_DESC|CUgraphExec\b"
)
"""Types that carry an address of device memory or a handle of it; executable graphs have the addresses of their nodes.

Arrays, textures and mipmapped arrays are not among them: their memory never moves.
"""
BY_ADDRESS = {
    "cuLogicalEndpointBindAddr",
    "cuMemRetainAllocationHandle",
    "cuTensorMapEncodeIm2col",
    "cuTensorMapEncodeIm2colWide",
    "cuTensorMapEncodeTiled",
    "cuTensorMapReplaceAddress",
}
"""Those that are given an address of device memory as ``void *``."""

OURS = {
    "cuMemAlloc": "32 bits wide: the driver allocates, and it never moves",
    "cuMemAlloc_v2": "the backend allocates",
    "cuMemAllocPitch": "as cuMemAlloc",
    "cuMemAllocPitch_v2": "the backend allocates",
    "cuMemFree": "finds what the driver allocated",
    "cuMemFree_v2": "the backend frees",
    "cuMemCreate": "a handle of ours",
    "cuMemRelease": "a handle of ours",
    "cuMemRetainAllocationHandle": "a handle of ours",
    "cuMemGetAllocationPropertiesFromHandle": "of a handle of ours",
    "cuMemMap": "a handle of ours, where the program has reserved",
    "cuMemUnmap": "a mapping of ours",
    "cuMemSetAccess": "a mapping of ours",
    "cuMemGetAccess": "a mapping of ours",
    "cuMemAddressReserve": "noted",
    "cuMemAddressFree": "refused while something of ours is mapped there",
    "cuMemGetAddressRange_v2": "a block of ours",
    "cuPointerGetAttribute": "a block of ours",
    "cuPointerGetAttributes": "a block of ours",
    "cuPointerSetAttribute": "a block of ours",
    "cuIpcOpenMemHandle": "a handle of ours",
    "cuIpcOpenMemHandle_v2": "a handle of ours",
    "cuIpcCloseMemHandle": "what a handle of ours was opened for",
}
"""Answered by us for memory of ours, whether it is out or not."""

STAYS = {
    "cuIpcGetMemHandle": "waits, and the memory stays where it is from then on",
    "cuMemExportToShareableHandle": "waits, and the memory stays where it is from then on",
    "cuMemGetHandleForAddressRange": "waits, and the memory stays where it is from then on",
    "cuMulticastBindMem": "waits, and the memory stays where it is from then on",
    "cuMulticastBindMem_v2": "waits, and the memory stays where it is from then on",
    "cuMulticastBindAddr": "waits, and the memory stays where it is from then on",
    "cuMulticastBindAddr_v2": "waits, and the memory stays where it is from then on",
    "cuLogicalEndpointBindMem": "waits, and the memory stays where it is from then on",
    "cuLogicalEndpointBindAddr": "waits, and the memory stays where it is from then on",
}

LOOKS = {
    "cuGraphAddNode",
    "cuGraphAddNode_v2",
    "cuGraphAddNode_v3",
    "cuGraphInstantiate",
    "cuGraphInstantiate_v2",
    "cuGraphInstantiateWithFlags",
    "cuGraphInstantiateWithParams",
    "cuGraphInstantiateWithParams_ptsz",
}
"""Wait at the gate in a body of their own, those of class LOOK in a generated one."""

HARMLESS = {
    "cuMemGetAddressRange": "addresses of 32 bits, which only the driver gives",
    "cuExternalMemoryGetMappedBuffer": "memory of others, which does not move",
    "cuGraphAddExternalSemaphoresSignalNode": "semaphores",
    "cuGraphAddExternalSemaphoresWaitNode": "semaphores",
    "cuGraphExternalSemaphoresSignalNodeGetParams": "semaphores",
    "cuGraphExternalSemaphoresSignalNodeSetParams": "semaphores",
    "cuGraphExternalSemaphoresWaitNodeGetParams": "semaphores",
    "cuGraphExternalSemaphoresWaitNodeSetParams": "semaphores",
    "cuGraphExecExternalSemaphoresSignalNodeSetParams": "semaphores",
    "cuGraphExecExternalSemaphoresWaitNodeSetParams": "semaphores",
    "cuGraphAddHostNode": "a function of the host",
    "cuGraphHostNodeGetParams": "a function of the host",
    "cuGraphHostNodeSetParams": "a function of the host",
    "cuGraphExecHostNodeSetParams": "a function of the host",
    "cuGraphAddKernelNode": "the driver copies a kernel's arguments and does not know which are addresses",
    "cuGraphAddKernelNode_v2": "as cuGraphAddKernelNode",
    "cuGraphKernelNodeGetParams": "gives back what it was given",
    "cuGraphKernelNodeGetParams_v2": "gives back what it was given",
    "cuGraphKernelNodeSetParams": "as cuGraphAddKernelNode",
    "cuGraphKernelNodeSetParams_v2": "as cuGraphAddKernelNode",
    "cuGraphExecKernelNodeSetParams": "as cuGraphAddKernelNode",
    "cuGraphExecKernelNodeSetParams_v2": "as cuGraphAddKernelNode",
    "cuGraphMemcpyNodeGetParams": "gives back what it was given",
    "cuGraphMemsetNodeGetParams": "gives back what it was given",
    "cuGraphBatchMemOpNodeGetParams": "gives back what it was given",
    "cuGraphNodeGetParams": "gives back what it was given",
    "cuGraphAddMemAllocNode": "memory of graphs does not move",
    "cuGraphAddMemFreeNode": "memory of graphs does not move",
    "cuGraphMemAllocNodeGetParams": "memory of graphs does not move",
    "cuGraphMemFreeNodeGetParams": "memory of graphs does not move",
    "cuGraphExecDestroy": "the nodes end, their memory is not looked at",
    "cuGraphExecEventRecordNodeSetEvent": "an event",
    "cuGraphExecEventWaitNodeSetEvent": "an event",
    "cuGraphExecGetFlags": "no node is looked at",
    "cuGraphExecGetId": "no node is looked at",
    "cuGraphNodeSetEnabled": "no address is looked at",
    "cuGraphNodeGetEnabled": "no address is looked at",
    "cuGraphicsResourceGetMappedPointer": "memory of others, which does not move",
    "cuGraphicsResourceGetMappedPointer_v2": "memory of others, which does not move",
    "cuLibraryGetGlobal": "memory of modules does not move",
    "cuLibraryGetManaged": "memory of modules does not move",
    "cuModuleGetGlobal": "memory of modules does not move",
    "cuModuleGetGlobal_v2": "memory of modules does not move",
    "cuMemAllocAsync": "memory of pools does not move",
    "cuMemAllocAsync_ptsz": "memory of pools does not move",
    "cuMemAllocFromPoolAsync": "memory of pools does not move",
    "cuMemAllocFromPoolAsync_ptsz": "memory of pools does not move",
    "cuMemFreeAsync": "memory of pools does not move",
    "cuMemFreeAsync_ptsz": "memory of pools does not move",
    "cuMemPoolExportPointer": "memory of pools does not move",
    "cuMemPoolImportPointer": "memory of pools does not move",
    "cuMemAllocManaged": "an address for host and device that is always there",
    "cuMemHostGetDevicePointer": "memory of the host",
    "cuMemHostGetDevicePointer_v2": "memory of the host",
    "cuMemImportFromShareableHandle": "memory of others, which does not move",
    "cuMemRangeGetAttribute": "of managed memory, which is always there; the driver refuses other memory",
    "cuMemRangeGetAttributes": "of managed memory, which is always there; the driver refuses other memory",
    "cuMulticastAddDevice": "a multicast object has no memory of its own",
    "cuMulticastCreate": "a multicast object has no memory of its own",
    "cuMulticastUnbind": "what was bound has stayed",
    "cuTensorMapEncodeIm2col": "computes 128 bytes from its arguments and needs no device",
    "cuTensorMapEncodeIm2colWide": "computes 128 bytes from its arguments and needs no device",
    "cuTensorMapEncodeTiled": "computes 128 bytes from its arguments and needs no device",
    "cuTensorMapReplaceAddress": "computes 128 bytes from its arguments and needs no device",
    "cuTexObjectGetResourceDesc": "gives back what it was given",
    "cuTexRefGetAddress": "gives back what it was given",
    "cuTexRefGetAddress_v2": "gives back what it was given",
    "cuSurfObjectCreate": "of arrays, which do not move",
    "cuSurfObjectGetResourceDesc": "gives back what it was given",
}
"""What the driver may be asked at any time, and why."""


def is_given_memory(point: EntryPoint) -> bool:
    """It has a parameter that carries an address of device memory, or a handle of it."""
    return point.symbol in BY_ADDRESS or any(OF_MEMORY.search(parameter.type) for parameter in point.parameters)


def answers(symbol: str, point: EntryPoint) -> list[str]:
    """Everything that is said of a symbol; one word is right."""
    row = ROWS.get(symbol)
    said = {
        "gated": is_gated(point),
        "looks": symbol in LOOKS or point.kind == "LOOK",
        "ours": symbol in OURS,
        "stays": symbol in STAYS,
        "harmless": symbol in HARMLESS,
    }
    assert not (said["looks"] or said["ours"] or said["stays"]) or (row and row.macro != "CALL"), "it has no hook"
    return [word for word, is_said in said.items() if is_said]


POINTS = {point.symbol: point for point in entry_points()}


@pytest.mark.parametrize("symbol", [symbol for symbol, point in POINTS.items() if is_given_memory(point)])
def test_what_becomes_of_it_is_said_once(symbol: str) -> None:
    """Whatever is given device memory is gated, waits to look at it, is answered by us, or is harmless for a reason."""
    assert len(answers(symbol, POINTS[symbol])) == 1, answers(symbol, POINTS[symbol])


def test_nothing_is_said_of_others() -> None:
    """The tables name no symbol that does not exist or is given no memory."""
    given = {symbol for symbol, point in POINTS.items() if is_given_memory(point)}
    assert (OURS.keys() | STAYS.keys() | HARMLESS.keys() | LOOKS) - given <= {"cuMemAddressReserve"}


def test_begins_of_captures_wait() -> None:
    """A capture begins with the lock held, since what it captures names memory: all of them go through one function."""
    text = (HOOKS / "stream.c").read_text()
    begins = {symbol for symbol in POINTS if re.match(r"cuStreamBegin(?:Rec|C)apture", symbol)}
    assert begins == set(re.findall(r"^BEGIN\((\w+),", text, re.MULTILINE))
