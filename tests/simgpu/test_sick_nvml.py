"""A simulated management library that is sick while programs run, as the file ``nvml`` says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simgpu.conftest import Clients

BEGIN = """
import pynvml, sys
def ask(question, *arguments):
    try:
        return question(*arguments)
    except pynvml.NVMLError as error:
        return str(error)
pynvml.nvmlInit()
first, second = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(2))
uuids = [pynvml.nvmlDeviceGetUUID(each) for each in (first, second)]
def say(text):
    open(sys.argv[1] + "/nvml", "w").write(text)
"""


@pytest.fixture
def begin(state_dir: Path) -> str:
    """Code that knows both devices and can say what is wrong."""
    return BEGIN.replace("sys.argv[1]", repr(str(state_dir)))


def test_a_lost_device(clients: Clients, begin: str) -> None:
    """It is counted, but gives no handle and no answer; the others work, found by index only, until it is back."""
    code = """
say("lost 1\\n")
print(pynvml.nvmlDeviceGetCount(), ask(pynvml.nvmlDeviceGetHandleByIndex, 1), ask(pynvml.nvmlDeviceGetUUID, second))
print(ask(pynvml.nvmlDeviceGetHandleByUUID, uuids[0]), ask(pynvml.nvmlDeviceGetMemoryInfo, second))
again = pynvml.nvmlDeviceGetHandleByIndex(0)
print(pynvml.nvmlDeviceGetUUID(again) == uuids[0], pynvml.nvmlDeviceGetMemoryInfo(again).used)
events = pynvml.nvmlEventSetCreate()
pynvml.nvmlDeviceRegisterEvents(first, pynvml.nvmlEventTypeXidCriticalError, events)
print(ask(pynvml.nvmlEventSetWait_v2, events, 1))
say("")
pynvml.nvmlDeviceRegisterEvents(second, pynvml.nvmlEventTypeXidCriticalError, events)
print(pynvml.nvmlDeviceGetUUID(second) == uuids[1], ask(pynvml.nvmlEventSetWait_v2, events, 1))
say("lost 1\\n")
print(ask(pynvml.nvmlEventSetWait_v2, events, 1))
"""
    lost = "GPU is lost"
    assert clients.run(begin + code).splitlines() == [
        f"2 {lost} {lost}",
        f"{lost} {lost}",
        "True 0",
        "Timeout",
        "True Timeout",
        lost,
    ]


def test_a_device_without_memory_of_its_own(clients: Clients, begin: str) -> None:
    """Only its memory can't be asked for."""
    code = """
say("no-memory 0\\n")
print(ask(pynvml.nvmlDeviceGetMemoryInfo, first), ask(pynvml.nvmlDeviceGetMemoryInfo, first, pynvml.nvmlMemory_v2))
print(ask(pynvml.nvmlDeviceGetComputeRunningProcesses, first), pynvml.nvmlDeviceGetMemoryInfo(second).used)
"""
    assert clients.run(begin + code).splitlines() == ["Not Supported Not Supported", "[] 0"]


def test_an_error_of_all(clients: Clients, begin: str) -> None:
    """Every call answers it, that which begins too."""
    code = """
say("error 18\\n")
mismatch = "RM has detected an NVML/RM version mismatch."
print({ask(pynvml.nvmlInit), ask(pynvml.nvmlDeviceGetCount), ask(pynvml.nvmlDeviceGetUUID, first)} == {mismatch})
say("")
print(ask(pynvml.nvmlDeviceGetCount))
"""
    assert clients.run(begin + code).splitlines() == ["True", "2"]


def test_it_hangs(clients: Clients, begin: str, state_dir: Path) -> None:
    """A call returns only when the file no longer says so."""
    code = """
import threading
say("hang\\n")
stuck = threading.Thread(target=lambda: print(pynvml.nvmlDeviceGetCount(), flush=True))
stuck.start()
print("stuck", stuck.is_alive(), flush=True)
stuck.join(0.2)
print("still", stuck.is_alive(), flush=True)
stuck.join()
"""
    process = clients.start(begin + code)
    assert process.stdout is not None
    assert process.stdout.readline() == "still True\n"
    (state_dir / "nvml").unlink()
    assert process.stdout.read() == "2\n"
    assert process.wait(10) == 0
