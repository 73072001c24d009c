"""``nvshare-ctl simulate``: the command takes the process's place and finds simulated GPUs."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import build_native
from nvshare import paths
from nvshare.paths import RunDir
from nvshare.simgpu import KERNELS_PTX, record
from tests.conftest import Libraries
from tests.ctl.program import COMMAND, ctl, environment
from tests.polling import poll_until
from tests.programs.compiler import compiled

COUNT = "from pynvml import *; nvmlInit(); print(nvmlDeviceGetCount())"
HOLD = (
    "import sys\n"
    "from tests.simgpu.device import Device, allocate\n"
    "Device.open(); allocate(12 << 30)\n"
    "print('holding', flush=True)\n"
    "sys.stdin.read()\n"
)
FILL_IN_TURNS = (
    "import ctypes\n"
    "from tests.simgpu.device import Device, allocate, call\n"
    "device, size = Device.open(), 768 << 20\n"
    "address, read = allocate(size), (ctypes.c_ubyte * 4)()\n"
    "for number in range(8):\n"
    "    call('cuMemsetD8', address, number, size)\n"
    "    device.spin(0.05)\n"
    "    call('cuMemcpyDtoH', ctypes.addressof(read), address + size - 4, 4)\n"
    "    assert list(read) == [number] * 4\n"
    "print('right')\n"
)
USED = "from pynvml import *; nvmlInit(); print(nvmlDeviceGetMemoryInfo(nvmlDeviceGetHandleByIndex(0)).used >> 30)"

pytestmark = pytest.mark.usefixtures("libraries")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """The folder for temporary folders; a command leaves none in it."""
    with tempfile.TemporaryDirectory(prefix="nvshare-") as folder:
        yield Path(folder)


@pytest.fixture
def program(libraries: Libraries, tmp_path: Path) -> list[str]:
    """A program that uses a GPU and knows what must come out."""
    target = build_native.TARGETS[platform.machine()]
    return [str(compiled("work", target, libraries.cuda, tmp_path)), str(KERNELS_PTX), "2", "3"]


def is_empty(folder: Path) -> bool:
    """Whether nothing is in a folder."""
    return not any(folder.iterdir())


def test_program(run_dir: RunDir, program: list[str], temporary: Path) -> None:
    """A program works and says nothing else; afterwards nothing is left of its GPUs, and no scheduler was started."""
    done = ctl(run_dir, "simulate", "--", *program, TMPDIR=str(temporary))
    assert (done.returncode, done.stdout, done.stderr) == (0, "right\n", "")
    poll_until(lambda: is_empty(temporary), "the folder of the GPUs is gone")
    assert is_empty(run_dir.root)


def test_driver_by_its_other_name(run_dir: RunDir) -> None:
    """A program that opens libcuda.so, as the original nvshare does, gets the simulated driver, and only once."""
    code = (
        "import ctypes; names = 'libcuda.so', 'libcuda.so.1'; first, second = map(ctypes.CDLL, names); "
        "address = lambda driver: ctypes.cast(driver.cuInit, ctypes.c_void_p).value; "
        "print(first.cuInit(0), address(first) == address(second))"
    )
    done = ctl(run_dir, "simulate", "--", sys.executable, "-c", code)
    assert (done.returncode, done.stdout) == (0, "0 True\n"), done.stderr


def test_program_under_run(run_dir: RunDir, program: list[str], tmp_path: Path) -> None:
    """The same program shares the simulated GPUs through a scheduler, which sees them too."""
    folder = tmp_path / "gpus"
    simulate = ["simulate", "--gpus", "1GiB", "--dir", str(folder), "--", *COMMAND]
    done = ctl(run_dir, *simulate, "run", "--", *program)
    assert (done.returncode, done.stdout) == (0, "right\n")
    assert "started a scheduler" in done.stderr
    try:
        assert "NVIDIA Simulated GPU" in ctl(run_dir, *simulate, "status").stdout
        assert len({span.pid for span in record.read(folder, 0)}) == 2
    finally:
        os.kill(int(run_dir.pid_file.read_text()), signal.SIGTERM)
        poll_until(lambda: not run_dir.client_socket.exists(), "the scheduler has ended")


def test_two_programs_that_do_not_fit_together(run_dir: RunDir, tmp_path: Path) -> None:
    """Each has three quarters of the GPU, and both get their work done with nothing else set up."""
    more = {"PYTHONPATH": f"{build_native.ROOT}:{build_native.SOURCES}"}
    command = [*COMMAND, "simulate", "--gpus", "1GiB/32MiB", "--dir", str(tmp_path / "gpus"), "--", *COMMAND, "run"]
    command += ["--quantum", "0.05", "--", sys.executable, "-c", FILL_IN_TURNS]
    try:
        programs = [
            subprocess.Popen(
                command,
                env=environment(run_dir, **more),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        for program in programs:
            said, _complaints = program.communicate(timeout=120)
            assert (program.returncode, said) == (0, "right\n")
    finally:
        os.kill(int(run_dir.pid_file.read_text()), signal.SIGTERM)
        poll_until(lambda: not run_dir.client_socket.exists(), "the scheduler has ended")


def test_two_commands_share_a_folder(run_dir: RunDir, tmp_path: Path) -> None:
    """What one has of a GPU's memory the other sees as used; without --dir it sees another GPU."""
    folder = str(tmp_path / "gpus")
    more = {"PYTHONPATH": f"{build_native.ROOT}:{build_native.SOURCES}"}
    holder = subprocess.Popen(
        [*COMMAND, "simulate", "--dir", folder, "--", sys.executable, "-c", HOLD],
        env=environment(run_dir, **more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holding\n"
        assert ctl(run_dir, "simulate", "--dir", folder, "--", sys.executable, "-c", USED).stdout == "12\n"
        assert ctl(run_dir, "simulate", "--", sys.executable, "-c", USED).stdout == "0\n"
        holder.communicate("")
    assert holder.returncode == 0


@pytest.mark.parametrize(
    ("options", "variable", "count"),
    [([], "", 2), ([], "3x1GiB", 3), (["--gpus", "1GiB"], "3x1GiB", 1), (["--gpus", "2xA B:1GiB,2GiB/64MiB"], "", 3)],
)
def test_gpus(run_dir: RunDir, options: list[str], variable: str, count: int) -> None:
    """The GPUs are those of the option, else those of the variable, else two."""
    more = {paths.SIMGPU_DEVICES: variable}
    assert ctl(run_dir, "simulate", *options, "--", sys.executable, "-c", COUNT, **more).stdout == f"{count}\n"


def test_exit_code(run_dir: RunDir) -> None:
    """The command's exit code is the command's; what follows the command belongs to it, also without --."""
    done = ctl(run_dir, "simulate", "sh", "-c", "echo $1; echo err >&2; exit 42", "sh", "--gpus")
    assert (done.returncode, done.stdout, done.stderr) == (42, "--gpus\n", "err\n")


def test_same_process(run_dir: RunDir) -> None:
    """The command has the pid that was started, no children, and reads the same standard input."""
    script = "import os, sys; print(os.getpid(), sys.stdin.read()); os.wait()"
    process = subprocess.Popen(
        [*COMMAND, "simulate", "--", sys.executable, "-c", script],
        env=environment(run_dir),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = process.communicate("a line", timeout=60)
    assert out == f"{process.pid} a line\n"
    assert "ChildProcessError" in err


def test_killed(run_dir: RunDir, temporary: Path) -> None:
    """A signal to the process is a signal to the command; a child that outlives it keeps its GPUs until it ends."""
    process = subprocess.Popen(
        [*COMMAND, "simulate", "--", "sh", "-c", "sleep 60 & echo $!; exec sleep 60"],
        env=environment(run_dir, TMPDIR=str(temporary)),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        folders = list(temporary.iterdir())
        assert len(folders) == 1
        process.terminate()
        assert process.wait(10) == -signal.SIGTERM
        done = ctl(run_dir, "simulate", "--", "true", TMPDIR=str(temporary))
        assert done.returncode == 0
        # The folder of the second is gone before the first's, which has had more time.
        poll_until(lambda: list(temporary.iterdir()) == folders, "only the first command's folder is there")
        os.kill(child, signal.SIGKILL)
        poll_until(lambda: is_empty(temporary), "the folder of the GPUs is gone")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--gpus", "nonsense"], 2, "--gpus: nonsense is not understood; allowed is"),
        (["--gpus", "33x1GiB"], 2, "--gpus: 33x1GiB is not understood; allowed is"),
        (
            ["--gpus", "1x1GiB/2GiB"],
            2,
            "--gpus: 1x1GiB/2GiB has contexts as large as their GPU, or larger; CONTEXT_SIZE",
        ),
        (["--gpus", "2TiB"], 2, "devices of at most 1TiB"),
        (["--gpus", ""], 2, "--gpus: '' names no GPU; say for example 2x16GiB"),
        (["--dir", "/dev/null"], 125, "/dev/null: Not a directory; choose another folder with --dir"),
        (["--dir", "/no/such/folder"], 125, "/no/such/folder: No such file or directory; choose another"),
        (["--dir", "/tmp/" + "x/" * 300], 125, "File name too long; choose another folder with --dir"),
    ],
)
def test_bad_values(run_dir: RunDir, temporary: Path, options: list[str], code: int, said: str) -> None:
    """A value that can't be used is named with the remedy, the command is not started, nothing is left."""
    done = ctl(run_dir, "simulate", *options, "--", "echo", "started", TMPDIR=str(temporary), COLUMNS="400")
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    poll_until(lambda: is_empty(temporary), "the folder of the GPUs is gone")


def test_other_gpus_in_the_folder(run_dir: RunDir, tmp_path: Path) -> None:
    """The GPUs of a folder don't change: who asks for others is refused, who asks for none gets them."""
    simulate = ["simulate", "--dir", str(tmp_path / "gpus")]
    assert ctl(run_dir, *simulate, "--gpus", "3x1GiB", "--", "true").returncode == 0
    assert ctl(run_dir, *simulate, "--", sys.executable, "-c", COUNT).stdout == "3\n"
    done = ctl(run_dir, *simulate, "--gpus", "1GiB", "--", "echo", "started")
    assert (done.returncode, done.stdout) == (125, "")
    assert "already has the GPUs 3x1GiB, not 1GiB; leave out --gpus, or choose another --dir" in done.stderr


def test_bad_variables(run_dir: RunDir) -> None:
    """The environment's mistakes are named as what they are."""
    done = ctl(run_dir, "simulate", "--", "echo", "started", **{paths.SIMGPU_DEVICES: "16"})
    assert (done.returncode, done.stdout) == (125, "")
    assert f"{paths.SIMGPU_DEVICES}=16 is not understood; allowed is" in done.stderr


def test_cannot_execute(run_dir: RunDir, temporary: Path, tmp_path: Path) -> None:
    """As in a shell: 127 not found, 126 not executable; nothing is left."""
    data = tmp_path / "data"
    data.write_bytes(b"\0\1\2")
    data.chmod(0o755)
    for name, code in (("no-such-command-anywhere", 127), ("/dev/null", 126), (str(data), 126)):
        done = ctl(run_dir, "simulate", "--", name, TMPDIR=str(temporary))
        assert done.returncode == code
        assert done.stderr.startswith(f"nvshare-ctl: cannot execute {name}")
    poll_until(lambda: is_empty(temporary), "the folder of the GPUs is gone")
