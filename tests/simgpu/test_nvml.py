"""The management library of the simulated GPU, as pynvml sees it."""

from __future__ import annotations

from pathlib import Path

from tests.simgpu.conftest import Clients

BEGIN = "import pynvml\npynvml.nvmlInit()\nhandle = pynvml.nvmlDeviceGetHandleByIndex(0)\n"
HOLD = """
import sys
from tests.simgpu.device import Device, allocate
Device.open()
allocate(1 << 30)
print("holding", flush=True)
sys.stdin.read()
"""


def test_it_knows_the_devices_that_the_driver_knows(clients: Clients) -> None:
    """Count, name, UUID and memory are the same in both, and a UUID leads back to its device."""
    clients.run(
        BEGIN + "from tests.simgpu.device import call\n"
        "call('cuInit', 0)\n"
        "assert pynvml.nvmlDeviceGetCount() == call('cuDeviceGetCount') == 2\n"
        "uuid = pynvml.nvmlDeviceGetUUID(handle)\n"
        "assert uuid.replace('-', '') == 'GPU' + call('cuDeviceGetUuid', 0).bytes.hex()\n"
        "again = pynvml.nvmlDeviceGetHandleByUUID(uuid)\n"
        "assert pynvml.nvmlDeviceGetIndex(again) == 0 == pynvml.nvmlDeviceGetMinorNumber(again)\n"
        "assert pynvml.nvmlDeviceGetName(handle) == 'NVIDIA Simulated GPU'\n"
        "assert pynvml.nvmlDeviceGetMemoryInfo(handle).total == call('cuDeviceTotalMem', 0)\n"
        "assert pynvml.nvmlDeviceGetPciInfo(handle).busId == '00000000:01:00.0'\n"
    )


def test_processes_and_memory(clients: Clients) -> None:
    """A process with a context is listed with what it uses, until it has ended."""
    look = (
        BEGIN + "used = pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2).used >> 20\n"
        "print([(p.pid, p.usedGpuMemory >> 20) for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)], used)"
    )
    assert clients.run(look).strip() == "[] 0"
    holder = clients.start(HOLD)
    assert clients.run(look).strip() == f"[({holder.pid}, 1280)] 1280"
    holder.kill()
    holder.wait()
    assert clients.run(look).strip() == "[] 0"


def test_events(clients: Clients, state_dir: Path) -> None:
    """A line in the events file is an XID of that device; only registered devices report, and no old lines."""
    code = (
        BEGIN + "folder = " + repr(str(state_dir)) + "\n"
        "open(folder + '/events', 'a').write('0 31\\n')\n"
        "events = pynvml.nvmlEventSetCreate()\n"
        "pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)\n"
        "open(folder + '/events', 'a').write('1 48\\n0 79\\n')\n"
        "event = pynvml.nvmlEventSetWait_v2(events, 5000)\n"
        "assert (event.eventType, event.eventData) == (pynvml.nvmlEventTypeXidCriticalError, 79)\n"
        "assert pynvml.nvmlDeviceGetIndex(event.device) == 0\n"
        "try:\n"
        "    pynvml.nvmlEventSetWait_v2(events, 50)\n"
        "except pynvml.NVMLError_Timeout:\n"
        "    print('timeout')\n"
    )
    assert clients.run(code).strip() == "timeout"


def test_mig_devices(clients: Clients, state_dir: Path) -> None:
    """A line in the file makes a device one in MIG mode, whose MIG devices have names, UUIDs, instances and memory."""
    clients.run(BEGIN)
    (state_dir / "nvml").write_text("mig 1 1g.10gb 3g.40gb+me\n")
    code = (
        BEGIN + "gpu = pynvml.nvmlDeviceGetHandleByIndex(1)\n"
        "assert pynvml.nvmlDeviceGetMaxMigDeviceCount(handle) == 0\n"
        "assert pynvml.nvmlDeviceGetMigMode(gpu) == [1, 1]\n"
        "assert pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu) == 7\n"
        "for place in range(2):\n"
        "    mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, place)\n"
        "    print(pynvml.nvmlDeviceGetName(mig), pynvml.nvmlDeviceGetGpuInstanceId(mig), sep='|')\n"
        "    assert pynvml.nvmlDeviceGetComputeInstanceId(mig) == 0\n"
        "    uuid = pynvml.nvmlDeviceGetUUID(mig)\n"
        "    assert uuid.startswith('MIG-') and uuid[4:] != pynvml.nvmlDeviceGetUUID(gpu)[4:]\n"
        "    again = pynvml.nvmlDeviceGetHandleByUUID(uuid)\n"
        "    assert pynvml.nvmlDeviceGetName(again) == pynvml.nvmlDeviceGetName(mig)\n"
        "    memory, whole = pynvml.nvmlDeviceGetMemoryInfo(mig), pynvml.nvmlDeviceGetMemoryInfo(gpu).total\n"
        "    assert (memory.total, memory.used, memory.free) == (whole * (1, 4)[place] // 8, 0, memory.total)\n"
        "for question in (lambda: pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 2),\n"
        "                 lambda: pynvml.nvmlDeviceGetGpuInstanceId(gpu)):\n"
        "    try:\n"
        "        question()\n"
        "    except pynvml.NVMLError as error:\n"
        "        print(type(error).__name__)\n"
    )
    assert clients.run(code).splitlines() == [
        "NVIDIA Simulated GPU MIG 1g.10gb|1",
        "NVIDIA Simulated GPU MIG 3g.40gb+me|2",
        "NVMLError_NotFound",
        "NVMLError_NotSupported",
    ]


def test_what_is_not_there_is_said_to_be_missing(clients: Clients) -> None:
    """MIG is not supported, an unknown UUID not found, and a function that is not simulated not exported."""
    code = (
        BEGIN + "for question in (lambda: pynvml.nvmlDeviceGetMigMode(handle),\n"
        "                 lambda: pynvml.nvmlDeviceGetHandleByUUID('GPU-0'),\n"
        "                 lambda: pynvml.nvmlDeviceGetFanSpeed(handle)):\n"
        "    try:\n"
        "        question()\n"
        "    except pynvml.NVMLError as error:\n"
        "        print(type(error).__name__)\n"
    )
    assert clients.run(code).split() == ["NVMLError_NotSupported", "NVMLError_NotFound", "NVMLError_FunctionNotFound"]
