"""What NVML says of memory to a program under a memory limit, and that it says its own to all others."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pynvml
import pytest

from nvshare import paths
from nvshare.protocol import wire
from tests.c_parts import ffi, lib
from tests.conftest import Libraries
from tests.polling import poll_until
from tests.shim.controlled_program import ControlledProgram
from tests.shim.fake_scheduler import FakeScheduler

GIB = 1 << 30
TOTAL, CONTEXT = 16 * GIB, 256 << 20  # of a simulated device
MIB = 1 << 20
LIMIT = 4 * GIB
KINDS = ("Compute", "Graphics", "MPSCompute")
NVML = "libnvidia-ml.so.1"
WRONG_ARGUMENTS = "2 2 25 2 2 2"  # as NVML refuses them
VERSION = {"x86_64": "GLIBC_2.2.5", "aarch64": "GLIBC_2.17"}[platform.machine()]

Start = Callable[..., ControlledProgram]


@pytest.fixture
def start(environment: dict[str, str], libraries: Libraries) -> Iterator[Start]:
    """Starts ``programs/nvml_loop.py`` under the library with these variables; all end with the test."""
    started: list[ControlledProgram] = []

    def begin(preload: bool = True, **variables: str) -> ControlledProgram:
        own = {"LD_PRELOAD": str(libraries.shim)} if preload else {}
        program = ControlledProgram(environment | own | variables, name="nvml_loop.py")
        started.append(program)
        return program

    yield begin
    for program in started:
        program.end()


@pytest.fixture
def limited(start: Start) -> Start:
    """The same with a limit, where a scheduler is not needed."""
    alone = {paths.MEMORY_LIMIT: str(LIMIT), paths.ON_MISSING: "run", paths.MEMORY: "native"}
    return lambda **variables: start(**alone | variables)


def numbers(answer: str) -> list[int]:
    """The numbers of an answer."""
    return [int(word) for word in answer.split()]


def mebibytes(answer: str) -> list[int]:
    """The same of an answer in bytes."""
    return [number // MIB for number in numbers(answer)]


def test_the_structures_are_nvidias() -> None:
    """Sizes, fields and version are those of NVIDIA's own bindings."""
    pairs = (
        ("struct nvs_nvml_memory", pynvml.c_nvmlMemory_t),
        ("struct nvs_nvml_memory_v2", pynvml.c_nvmlMemory_v2_t),
        ("struct nvs_nvml_process", pynvml.c_nvmlProcessInfo_v2_t),
        ("struct nvs_nvml_process", pynvml.c_nvmlProcessInfo_v3_t),
    )
    for ours, theirs in pairs:
        fields = [field for _, field in ffi.typeof(ours).fields]
        expected = [getattr(theirs, name) for name, _ in theirs._fields_]
        assert [(field.offset, ffi.sizeof(field.type)) for field in fields] == [
            (field.offset, field.size) for field in expected
        ]
        assert ffi.sizeof(ours) == ctypes.sizeof(theirs)
    assert pynvml.nvmlMemory_v2 == lib.NVS_NVML_MEMORY_V2
    assert lib.NVS_NVML_UUID_BYTES == pynvml.NVML_DEVICE_UUID_V2_BUFFER_SIZE
    assert lib.NVS_NVML_SUCCESS == pynvml.NVML_SUCCESS
    assert lib.NVS_NVML_ERROR_INSUFFICIENT_SIZE == pynvml.NVML_ERROR_INSUFFICIENT_SIZE
    assert lib.NVS_NVML_ERROR_MEMORY == pynvml.NVML_ERROR_MEMORY


def test_a_limit_is_the_devices_size(limited: Start) -> None:
    """In a process that does not use CUDA: both versions, every device, and nothing but the limit is changed."""
    program = limited(NVSHARE_SIMGPU_DEVICES="2x16GiB")
    for device in "01":
        assert numbers(program.do(f"memory {device}")) == [LIMIT, LIMIT, 0]
        assert numbers(program.do(f"memory_v2 {device}")) == [LIMIT, LIMIT, 0, 0]
        assert program.do(f"wrong_arguments {device}") == WRONG_ARGUMENTS


def test_a_limit_beyond_the_device(limited: Start) -> None:
    """No device becomes larger than it is."""
    assert numbers(limited(NVSHARE_MEMORY_LIMIT="1T").do("memory 0")) == [TOTAL, TOTAL, 0]


def test_a_process_that_uses_the_device(limited: Start) -> None:
    """What is used is what was allocated, on each device by itself, and the driver's own answer says the same."""
    program = limited(NVSHARE_SIMGPU_DEVICES="2x16GiB")
    assert program.do("use 1") == "0" == program.do(f"allocate {GIB}")
    assert numbers(program.do("memory 1")) == [LIMIT, LIMIT - GIB, GIB]
    assert numbers(program.do("memory_v2 1")) == [LIMIT, LIMIT - GIB, GIB, 0]
    assert numbers(program.do("cuda")) == [LIMIT, LIMIT - GIB]
    assert numbers(program.do("memory 0")) == [LIMIT, LIMIT, 0]


def test_memory_that_swaps_counts(limited: Start, start_scheduler: Callable[..., object]) -> None:
    """What the library moves is used as well, wherever it is."""
    start_scheduler()
    program = limited(NVSHARE_MEMORY="swap")
    assert program.do("use 0") == "0" == program.do(f"allocate {GIB}")
    assert numbers(program.do("memory 0")) == [LIMIT, LIMIT - GIB, GIB]


def test_what_the_scheduler_says_counts(start: Start, fake_scheduler: FakeScheduler) -> None:
    """Its limit holds without one in the environment, what others of the container have is used, and it may end."""
    program = start(NVSHARE_MEMORY="native")
    peer = fake_scheduler.serve(program, "use 0")
    assert numbers(program.do("memory 0"))[0] == TOTAL
    peer.send(wire.Limit(limit_bytes=2 * GIB, others_bytes=GIB))
    poll_until(lambda: numbers(program.do("memory 0")) == [2 * GIB, GIB, GIB], "the limit counts")
    assert program.do(f"allocate {GIB // 2}") == "0"
    assert numbers(program.do("memory_v2 0")) == [2 * GIB, GIB // 2, 3 * GIB // 2, 0]
    peer.send(wire.Limit(limit_bytes=GIB, others_bytes=3 * GIB))
    poll_until(lambda: numbers(program.do("memory 0")) == [GIB, 0, GIB], "never more is used than there is")
    peer.send(wire.Limit(limit_bytes=0, others_bytes=0))
    poll_until(lambda: numbers(program.do("memory 0"))[0] == TOTAL, "the limit is gone")


def test_a_process_that_only_looks_sees_what_others_use(limited: Start, start: Start) -> None:
    """It has NVML's list of processes: their use is the container's, and never more than the limit."""
    holder, monitor = start(NVSHARE_MEMORY="native", NVSHARE_ON_MISSING="run"), limited()
    assert holder.do("use 0") == "0" == holder.do(f"allocate {GIB}")
    used = GIB + CONTEXT
    assert numbers(monitor.do("memory 0")) == [LIMIT, LIMIT - used, used]
    assert holder.do(f"allocate {8 * GIB}") == "0"
    assert numbers(monitor.do("memory 0")) == [LIMIT, 0, LIMIT]
    assert monitor.do("pids 0") == str(holder.pid)


def test_lists_keep_their_ways(limited: Start, start: Start) -> None:
    """Under a limit every version answers as NVML does, also to one who asks how many there are."""
    holder = start(NVSHARE_MEMORY="native", NVSHARE_ON_MISSING="run")
    assert holder.do("use 0") == "0"
    monitor, bare = limited(), start(preload=False)
    for symbol in (f"nvmlDeviceGet{kind}RunningProcesses{version}" for kind in KINDS for version in ("", "_v2", "_v3")):
        for room in (0, 1, 9):
            command = f"listed {symbol} 0 {room}"
            assert monitor.do(command) == bare.do(command), command
    assert monitor.do("listed nvmlDeviceGetComputeRunningProcesses_v3 0 0") == "7 1 -"
    assert monitor.do("wrong_arguments 0") == WRONG_ARGUMENTS


def test_without_a_limit_all_answers_are_nvmls(start: Start) -> None:
    """Bit by bit, in a process that uses the device and in one that does not, whoever has what."""
    own = {"NVSHARE_MEMORY": "native", "NVSHARE_ON_MISSING": "run"}
    holder = start(**own)
    assert holder.do("use 0") == "0" == holder.do(f"allocate {GIB}")
    answers = {program.do("everything 0") for program in (holder, start(**own), start(preload=False))}
    assert len(answers) == 1


def test_a_process_that_only_looks_stays_alone(limited: Start, start: Start) -> None:
    """It opens no more files and starts no more threads than without the library, and says nothing."""
    programs = limited(), start(preload=False)
    for program in programs:
        assert program.do("memory 0")
    assert len({program.do("belongings") for program in programs}) == 1
    assert not programs[0].errors


@pytest.fixture
def routes(
    environment: dict[str, str], libraries: Libraries, compile_c: Callable[..., Path]
) -> Callable[..., list[str]]:
    """Compiles ``programs/nvml_routes.c`` with these flags, and runs it under the library with a limit."""

    def run(
        *ways: str, flags: tuple[str, ...] = (), limit: str = str(LIMIT), prefix: tuple[str, ...] = (), **variables: str
    ) -> list[str]:
        program = compile_c("programs/nvml_routes.c", "routes", f'-DVERSION="{VERSION}"', *flags, "-ldl")
        own = {"LD_PRELOAD": str(libraries.shim), paths.MEMORY_LIMIT: limit, paths.ON_MISSING: "run"}
        command, variables = [*prefix, str(program), *ways], environment | own | variables
        done = subprocess.run(command, env=variables, check=True, capture_output=True, text=True, timeout=60)
        return done.stdout.splitlines()

    return run


def test_every_look_up_leads_to_the_view(routes: Callable[..., list[str]], compile_c: Callable[..., Path]) -> None:
    """By whatever handle, also of a library opened with RTLD_DEEPBIND, and by a dlsym that dlvsym has found.

    What comes after an object that was opened after NVML is nothing.
    """
    for way in ("handle", "deep", "dlvsym"):
        assert routes(way) == [str(LIMIT)], way
    assert routes("open", "default", "next") == [str(LIMIT)] * 2
    plugin = compile_c("programs/nvml_routes.c", "plugin.so", "-DPLUGIN", "-shared", "-fPIC", "-ldl")
    assert routes("open", str(plugin)) == routes("open", str(plugin), limit="") == ["none"]


def test_a_library_that_is_not_there_is_not_found(
    routes: Callable[..., list[str]], environment: dict[str, str], libraries: Libraries
) -> None:
    """Before NVML is opened its names lead nowhere, nor do they for all when it was opened for one."""
    assert routes("default", "next") == ["none"] * 2
    assert routes("handle", "default", "next") == [str(LIMIT), "none", "none"]
    absent = environment | {"LD_PRELOAD": str(libraries.shim), "LD_LIBRARY_PATH": "", paths.MEMORY_LIMIT: "1G"}
    code = (
        "import ctypes, pynvml\n"
        "try:\n    pynvml.nvmlInit()\n"
        "except pynvml.NVMLError_LibraryNotFound:\n    print('absent', hasattr(ctypes.CDLL(None), 'nvmlInit_v2'),"
        " hasattr(ctypes.CDLL(None), 'nvmlDeviceGetMemoryInfo'))\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=absent, check=True, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("absent False False\n", "")


@pytest.mark.parametrize("binding", ["now", "lazy"])
def test_a_program_that_is_linked_with_it(routes: Callable[..., list[str]], libraries: Libraries, binding: str) -> None:
    """As soon as it has looked up any of NVML's names or used a device; without a limit nothing is changed."""
    flags = ("-DDIRECT", str(libraries.nvml), f"-Wl,-z,{binding}")
    for begins in ("look", "use"):
        assert routes(begins, "linked", flags=flags) == [str(LIMIT)], begins
        assert routes(begins, "linked", flags=flags, limit="") == [str(TOTAL)], begins


LATER = ("-DDIRECT", "-rdynamic", "-Wl,--unresolved-symbols=ignore-in-object-files", "-Wl,-z,lazy")


def test_a_program_that_binds_names_later(routes: Callable[..., list[str]]) -> None:
    """It opens NVML for all, looks some names up, and calls others that the loader finds then, as programs in Go do."""
    assert routes("open", "look", "linked", flags=LATER) == [str(LIMIT)]


def test_nvml_is_written_to_under_a_limit_only(
    routes: Callable[..., list[str]], tool: Callable[[str], str], tmp_path: Path
) -> None:
    """Without one, no memory of the process is changed."""
    for limit, expected in (("", False), ("1G", True)):
        prefix = (tool("strace"), "-o", str(tmp_path / "trace"))
        assert routes("handle", limit=limit, prefix=prefix)
        assert ("/proc/self/mem" in (tmp_path / "trace").read_text()) is expected


def test_nvml_stays_in_memory(routes: Callable[..., list[str]]) -> None:
    """What a hook goes on to can't be unloaded."""
    assert routes("close", limit="") == ["stays"]


@pytest.fixture
def other(compile_c: Callable[..., Path], environment: dict[str, str]) -> Callable[..., dict[str, str]]:
    """Compiles ``programs/nvml_other.c``; the variables that make it NVML."""

    def variables(*flags: str, uuid: str = "GPU-0", processes: str = "") -> dict[str, str]:
        linked = ("-shared", "-fPIC", f"-Wl,-soname,{NVML},-z,lazy")
        folder = compile_c("programs/nvml_other.c", NVML, *linked, *flags).parent
        path = f"{folder}:{environment['LD_LIBRARY_PATH']}"
        return {"LD_LIBRARY_PATH": path, "NVML_UUID": uuid, "NVML_PROCESSES": processes}

    return variables


@pytest.fixture
def with_other(limited: Start, other: Callable[..., dict[str, str]]) -> Start:
    """Starts the loop with that NVML and a limit of 600 MiB."""

    def begin(*flags: str, limit: str = "600Mi", **kwargs: str) -> ControlledProgram:
        return limited(**other(*flags, **kwargs), NVSHARE_MEMORY_LIMIT=limit)

    return begin


def test_what_nvml_asks_itself(routes: Callable[..., list[str]], other: Callable[..., dict[str, str]]) -> None:
    """It answers itself, also where its own calls are bound after its names lead to us."""
    assert routes("open", "look", "linked", flags=LATER, limit="600Mi", **other()) == [str(600 * MIB)]


def test_what_the_driver_reserves(with_other: Start) -> None:
    """Of it a program sees what its limit would reach into; free, used and reserved are the total."""
    program = with_other()
    assert mebibytes(program.do("memory_v2 0")) == [600, 600, 0, 0]
    assert mebibytes(program.do("memory 0")) == [600, 600, 0]
    program = with_other(limit="950Mi")
    assert mebibytes(program.do("memory_v2 0")) == [950, 900, 0, 50]
    assert mebibytes(program.do("memory 0")) == [950, 900, 50]
    program = with_other(limit="")
    assert mebibytes(program.do("memory_v2 0")) == [1000, 200, 700, 100]
    assert mebibytes(program.do("memory 0")) == [1000, 200, 800]


def test_processes_of_other_namespaces(with_other: Start) -> None:
    """Under a limit the list has those that are seen here; where it has others, the device's own use is said."""
    here, nowhere = os.getpid(), 4_000_000
    program = with_other(processes=f"{here}:{150 * MIB}")
    assert program.do("pids 0") == str(here)
    assert mebibytes(program.do("memory_v2 0")) == [600, 450, 150, 0]
    program = with_other(processes=f"{nowhere}:8,{here}:{150 * MIB},0:9")
    assert program.do("pids 0") == str(here)
    assert program.do("listed nvmlDeviceGetComputeRunningProcesses_v3 0 0") == "7 1 -"
    entry = struct.pack("=IxxxxQII", here, 150 * MIB, 3, 4).hex()
    assert program.do("listed nvmlDeviceGetComputeRunningProcesses_v3 0 1") == f"0 1 {entry}"
    assert mebibytes(program.do("memory_v2 0")) == [600, 0, 600, 0]
    program = with_other(limit="", processes=f"{nowhere}:8,{here}:{150 * MIB}")
    assert program.do("pids 0") == f"{nowhere} {here}"


def test_a_use_that_is_not_known(with_other: Start) -> None:
    """Where NVML can't say what a process has, the device's own use is said."""
    program = with_other(limit="900Mi", processes=f"{os.getpid()}:{100 * MIB},{os.getpid()}:{2**64 - 1}")
    assert mebibytes(program.do("memory_v2 0")) == [900, 200, 700, 0]


def test_more_processes_than_expected(with_other: Start) -> None:
    """A long list is answered in full."""
    pid = os.getpid()
    program = with_other(processes=",".join([f"{pid}:1"] * 500))
    assert program.do("pids 0") == " ".join([str(pid)] * 500)


def test_instances_of_a_device(with_other: Start) -> None:
    """A MIG instance that this process uses is found by its UUID, and what is no UUID is nobody's."""
    program = with_other(uuid="MIG-GPU-5/1/0")
    assert program.do("use 0") == "0" == program.do(f"allocate {300 * MIB}")
    assert mebibytes(program.do("memory_v2 0")) == [600, 600, 0, 0]
    program = with_other(uuid=f"MIG-{UUID(bytes=bytes.fromhex(program.do('uuid')))}")
    assert program.do("use 0") == "0" == program.do(f"allocate {300 * MIB}")
    assert mebibytes(program.do("memory_v2 0")) == [600, 300, 300, 0]


def test_a_library_of_the_same_name(with_other: Start) -> None:
    """One that can't be NVIDIA's answers by itself."""
    assert mebibytes(with_other("-DMINIMAL").do("memory 0")) == [1000, 200, 800]
