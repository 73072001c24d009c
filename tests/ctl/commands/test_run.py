"""``nvshare-ctl run``: the command takes the process's place and finds it as if nothing had been in between."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.paths import RunDir
from tests.ctl.admin_server import Answers, example, serving
from tests.ctl.program import COMMAND, ctl, environment
from tests.ctl.terminal import in_terminal
from tests.polling import poll_until

pytestmark = pytest.mark.usefixtures("libraries", "accepting")


def test_exit_code(run_dir: RunDir) -> None:
    """The command's exit code is the command's, and nothing is said."""
    done = ctl(run_dir, "run", "--", "sh", "-c", "echo out; echo err >&2; exit 42")
    assert (done.returncode, done.stdout, done.stderr) == (42, "out\n", "err\n")


def test_options_of_the_command(run_dir: RunDir) -> None:
    """What follows the command belongs to it, also without --."""
    done = ctl(run_dir, "run", "echo", "--quantum", "--help", "-x")
    assert done.stdout == "--quantum --help -x\n"


def test_same_process(run_dir: RunDir) -> None:
    """The command has the pid that was started, no children, and reads the same standard input."""
    script = "import os, sys; print(os.getpid(), sys.stdin.read()); os.wait()"
    process = subprocess.Popen(
        [*COMMAND, "run", "--", sys.executable, "-c", script],
        env=environment(run_dir),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = process.communicate("a line", timeout=60)
    assert out == f"{process.pid} a line\n"
    assert "ChildProcessError" in err


def test_variables(run_dir: RunDir) -> None:
    """The preload goes before an existing one, the run directory is named, the rest of the environment stays."""
    more = {"LD_PRELOAD": "/lib/other.so:/lib/third.so", "SOME_VARIABLE": "kept"}
    # The shell's env is used because the dynamic loader complains about the made-up libraries on stderr only.
    done = ctl(run_dir, "run", "--run-dir", str(run_dir.root), "--", "env", **more)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines())
    library = ctl(run_dir, "library-path").stdout.strip()
    assert Path(library).name == paths.LIBRARY_NAME
    assert found[paths.LD_PRELOAD] == f"{library}:/lib/other.so:/lib/third.so"
    assert found[paths.RUN_DIR] == str(run_dir.root)
    assert found["SOME_VARIABLE"] == "kept"


@pytest.mark.parametrize("given", [{"LANG": "C"}, {"LC_CTYPE": "C"}, {"LC_CTYPE": "C.UTF-8"}], ids=str)
def test_locale(run_dir: RunDir, given: dict[str, str]) -> None:
    """The command has the caller's: in another one it takes bytes for other characters, and computes other things."""
    done = ctl(run_dir, "run", "--run-dir", str(run_dir.root), "--", "env", **given)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert found.get("LC_CTYPE") == given.get("LC_CTYPE")


def test_nested(run_dir: RunDir) -> None:
    """A run inside a run names the library once."""
    done = ctl(run_dir, "run", "--", *COMMAND, "run", "--", "sh", "-c", "echo $LD_PRELOAD")
    assert done.stdout.count(paths.LIBRARY_NAME) == 1


def test_signals_are_default(run_dir: RunDir) -> None:
    """The command inherits no ignored signal: a closed pipe ends it as it ends every program."""
    done = ctl(run_dir, "run", "--", "sh", "-c", "grep SigIgn /proc/self/status")
    ignored = int(done.stdout.split()[1], 16)
    # Signals 32 and 33 belong to the C library, and make leaves them ignored.
    assert ignored & 0x7FFFFFFF == 0
    assert ctl(run_dir, "run", "--", "sh", "-c", "kill -PIPE $$").returncode == -signal.SIGPIPE


def test_killed(run_dir: RunDir) -> None:
    """A signal to the process is a signal to the command, and its parent sees that end."""
    process = subprocess.Popen(
        [*COMMAND, "run", "--", "sh", "-c", "echo ready; exec sleep 60"],
        env=environment(run_dir),
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(10) == -signal.SIGTERM


def test_terminal(run_dir: RunDir) -> None:
    """The command has the terminal: it is one for it, Ctrl-C reaches it, it may catch that."""
    script = "test -t 0 && test -t 1 && trap 'echo caught; exit 7' INT && echo ready && while :; do sleep 0.05; done"
    command = [*COMMAND, "run", "--", "sh", "-c", script]
    own_session = {"start_new_session": True, "preexec_fn": _own_terminal}
    with in_terminal(command, environment(run_dir), **own_session) as terminal:
        poll_until(lambda: "ready" in terminal.output(), "the command runs")
        terminal.press(b"\x03")
        assert terminal.process.wait(10) == 7
        poll_until(lambda: "caught" in terminal.output(), "it has said so")


def _own_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("no-such-command-anywhere", 127, "no such command in PATH"),
        ("./no/such/file", 127, "no such file"),
        ("/dev/null", 126, "permission denied"),
        ("/", 126, "directory"),
        ("", 127, "cannot execute '': no such command in PATH"),
        ("python train.py" * 100, 126, "File name too long"),
        ("/" + "x" * 300, 126, "File name too long"),
    ],
)
def test_cannot_execute(run_dir: RunDir, name: str, code: int, said: str) -> None:
    """As in a shell: 127 not found, 126 not executable, and a line that says which."""
    done = ctl(run_dir, "run", "--", name)
    assert done.returncode == code
    assert done.stderr.startswith(f"nvshare-ctl: cannot execute {name}")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_wrong_format(run_dir: RunDir, tmp_path: Path) -> None:
    """An executable file that is no program: 126; one whose interpreter is missing: 127."""
    for name, text, code in (("data", "\0\1\2", 126), ("script", "#!/no/such/interpreter\n", 127)):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o755)
        done = ctl(run_dir, "run", "--", str(path))
        assert done.returncode == code
        assert f"cannot execute {path}" in done.stderr


@pytest.mark.parametrize("command", ["run", "simulate"])
def test_script_without_an_interpreter(run_dir: RunDir, tmp_path: Path, command: str) -> None:
    """It runs as under env, and finds its own path and its arguments."""
    path = tmp_path / "script"
    path.write_text('echo "$0: $*"; exit 3\n')
    path.chmod(0o755)
    under_env = subprocess.run(["env", str(path), "a", "b c"], capture_output=True, text=True, check=False)
    done = ctl(run_dir, command, "--", str(path), "a", "b c")
    assert (done.returncode, done.stdout, done.stderr) == (3, under_env.stdout, "")


def test_quantum(run_dir: RunDir) -> None:
    """--quantum is set before the command begins, and said."""
    with serving(run_dir, Answers(example())) as answers:
        done = ctl(run_dir, "run", "--quantum", "2.5", "--", "true")
    assert done.returncode == 0
    assert done.stderr == "nvshare-ctl: quantum is now 2.5 s on all devices\n"
    assert [request.seconds for request in answers.asked] == [2.5]


def test_quantum_not_set(run_dir: RunDir) -> None:
    """If the quantum can't be set the command is not started."""
    done = ctl(run_dir, "run", "--quantum", "2.5", "--", "echo", "started")
    assert (done.returncode, done.stdout) == (125, "")
    assert "quantum could not be set to 2.5 s" in done.stderr


def test_quantum_out_of_range(run_dir: RunDir) -> None:
    """A wrong command line, and nothing is started."""
    done = ctl(run_dir, "run", "--quantum", "1e12", "--", "echo", "started", COLUMNS="120")
    assert (done.returncode, done.stdout) == (2, "")
    assert "1e12 s is not allowed; from 0.01 to 86400 s is" in done.stderr


def test_another_users_scheduler(run_dir: RunDir) -> None:
    """A run directory that can't be written is no obstacle where a scheduler accepts clients in it."""
    run_dir.programs_lock.mkdir()
    assert ctl(run_dir, "run", "--", "true").returncode == 0
