"""The command line of nvshare-scheduler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nvshare import paths, switches
from nvshare.command_classes import Command
from nvshare.device_uuid import device_bytes
from nvshare.log import LogFormat, LogLevel
from nvshare.numbers import number_of
from nvshare.nvml_state import INIT_ERROR_SECONDS
from nvshare.path_option import path_of
from nvshare.scheduler.arenas.choice import HALF, HostMemoryChoice, host_memory_of
from nvshare.scheduler.commands import InvalidCommandError, check_quantum
from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.settings import LONGEST_QUANTUM, Settings, Unresponsive
from nvshare.scheduler.options import CommandLine, Options
from nvshare.sizes import size_of
from nvshare.version import version

_LONGEST_IDLE = 86400.0
_SHORTEST_SLEEP_AFTER = 0.1
_SHORTEST_GRACE = 0.1
_LONGEST_GRACE = 86400.0
_LONGEST_TURN = 1000.0
_HIGHEST_FLOOR = 0.5


class FailOnInitError(StrEnum):
    """Whether to end when NVML stays away."""

    AUTO = "auto"
    TRUE = "true"
    FALSE = "false"


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose command line it is: the typer context's ``obj``."""

    environment: Mapping[str, str]
    tell: Callable[[CommandLine], None]
    """Takes what was said, unless that was wrong or asked for help only."""


app = typer.Typer(add_completion=True, pretty_exceptions_enable=False, rich_markup_mode=None)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"nvshare-scheduler {version()}")
        raise typer.Exit


def _number(text: str | float) -> float:
    try:
        return number_of(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no number") from None


def _quantum(text: str | float) -> float:
    seconds = _number(text)
    try:
        check_quantum(seconds)
    except InvalidCommandError as error:
        raise typer.BadParameter(str(error)) from error
    return seconds


def _idle(text: str | float) -> float:
    seconds = _number(text)
    if not 0 <= seconds <= _LONGEST_IDLE:
        raise typer.BadParameter(f"{seconds:g} s is not allowed; from 0 to {_LONGEST_IDLE:g} s is")
    return seconds


def _grace(text: str | float) -> float:
    seconds = _number(text)
    if not _SHORTEST_GRACE <= seconds <= _LONGEST_GRACE:
        raise typer.BadParameter(f"{seconds:g} s is not allowed; from {_SHORTEST_GRACE:g} to {_LONGEST_GRACE:g} s is")
    return seconds


def _longest_turn(text: str | float) -> float:
    quanta = _number(text)
    if not 1 <= quanta <= _LONGEST_TURN:
        raise typer.BadParameter(f"{quanta:g} is not allowed; from 1 to {_LONGEST_TURN:g} quanta is")
    return quanta


def _floor(text: str | float) -> float:
    share = _number(text)
    if not 0 <= share <= _HIGHEST_FLOOR:
        raise typer.BadParameter(f"{share:g} is not allowed; from 0 to {_HIGHEST_FLOOR:g} is")
    return share


def _burst(text: str | float) -> float:
    seconds = _number(text)
    if not 0 <= seconds <= LONGEST_QUANTUM:
        raise typer.BadParameter(f"{seconds:g} s is not allowed; from 0 to {LONGEST_QUANTUM:g} s is")
    return seconds


def _sleep_after(text: str | float) -> float:
    seconds = _number(text)
    if not _SHORTEST_SLEEP_AFTER <= seconds <= _LONGEST_IDLE:
        allowed = f"from {_SHORTEST_SLEEP_AFTER:g} to {_LONGEST_IDLE:g}"
        raise typer.BadParameter(f"{seconds:g} s is not allowed; {allowed} s is")
    return seconds


def _size(text: str) -> int:
    try:
        return size_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _swap_size(text: str) -> int:
    size_bytes = _size(text)
    if not size_bytes:
        raise typer.BadParameter("0 is not allowed; without --swap-dir there are no files")
    return size_bytes


def _host_memory(text: str | HostMemoryChoice) -> HostMemoryChoice:
    if isinstance(text, HostMemoryChoice):
        return text
    try:
        return host_memory_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _address(text: str) -> str:
    from nvshare.http import is_address

    if not is_address(text):
        raise typer.BadParameter(f"{text!r} is not of the form HOST:PORT, such as 127.0.0.1:9402")
    return text


def _device(name: str) -> str:
    try:
        device_bytes(name)
    except ValueError:
        form = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx (or MIG-...), as nvidia-smi -L prints it"
        raise typer.BadParameter(f"{name!r} is no device UUID; {form}, is") from None
    return name


@app.command(
    cls=Command,
    help="Decides which program may use which GPU when. One per node, or one per user.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
def _scheduler(
    context: typer.Context,
    run_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            parser=path_of,
            help="Folder of the sockets. [default: $NVSHARE_RUN_DIR, else /var/run/nvshare for root and "
            "$XDG_RUNTIME_DIR/nvshare for a user]",
        ),
    ] = None,
    quantum: Annotated[
        float,
        typer.Option(metavar="SECONDS", parser=_quantum, help="How long a turn is while others wait, 0.01 to 86400."),
    ] = 30.0,
    policy: Annotated[
        Policy,
        typer.Option(
            help="auto: together if their memory fits, else in turns; exclusive: one at a time; off: all together."
        ),
    ] = Policy.AUTO,
    longest_turn: Annotated[
        float,
        typer.Option(
            metavar="QUANTA",
            parser=_longest_turn,
            help="No turn is longer than so many quanta, whatever the weights, from 1 to 1000. A quantum counts here "
            "as at least 24 times the part of a hand-over in which the GPU waits for memory.",
        ),
    ] = 10.0,
    floor: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            parser=_floor,
            help="What lower priority classes together get of a GPU's time while a higher one always wants it, from 0 "
            "to 0.5; 0: nothing.",
        ),
    ] = 0.05,
    burst: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            parser=_burst,
            help="The most of a GPU's time that a container saves while it is idle, 0 to 86400; with that it need not "
            "wait for others' turns to end. 0: all wait.",
        ),
    ] = 1.0,
    grace: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            parser=_grace,
            help="How long a program may take to give the lock or memory back when asked to, 0.1 to 86400; then it is "
            "unresponsive.",
        ),
    ] = 10.0,
    unresponsive: Annotated[
        Unresponsive,
        typer.Option(
            help="report: an unresponsive program is only shown and logged; "
            "kill: it is killed once somebody waits who can run only without it."
        ),
    ] = Unresponsive.REPORT,
    host_memory: Annotated[
        HostMemoryChoice,
        typer.Option(
            metavar="SIZE|PERCENT",
            parser=_host_memory,
            show_default=False,
            help="Host memory for what is swapped out, of all programs together: 16GiB, 0 for none, or a share of what "
            "the machine has free when this starts; never more than is free then, less 2 GiB (or a tenth of a machine "
            "with less than 20 GiB), and no more than this process's memory cgroup allows. [default: 50%]",
        ),
    ] = HALF,
    swap_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            parser=path_of,
            show_default=False,
            help="A folder on a local disk. While host memory is scarce the data of programs that sleep goes there, "
            "into files without names, and comes back before they wake. [default: it stays in host memory]",
        ),
    ] = None,
    swap_size: Annotated[
        int | None,
        typer.Option(
            metavar="SIZE",
            parser=_swap_size,
            show_default=False,
            help="What these files together may have. [default: nine tenths of what is free there when this starts]",
        ),
    ] = None,
    reserve: Annotated[
        int | None,
        typer.Option(
            metavar="SIZE",
            parser=_size,
            help="What stays free on each GPU where memory swaps, for contexts and modules, which the driver takes "
            "unasked. [default: 512MiB, or 2% of the GPU if that is more; an eighth at most]",
        ),
    ] = None,
    sleep_after: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            parser=_sleep_after,
            show_default=False,
            help="A program that has been idle for so long, 0.1 to 86400, leaves its GPUs altogether, context and all, "
            "until its next call of CUDA. Needs driver 570, and root for programs of others. [default: not before "
            "others lack memory]",
        ),
    ] = None,
    log_format: Annotated[LogFormat, typer.Option(help="How log lines on stderr look.")] = LogFormat.TEXT,
    log_level: Annotated[
        LogLevel | None,
        typer.Option(help="The least severity of what is logged. [default: info; debug with NVSHARE_DEBUG=1]"),
    ] = None,
    legacy_device: Annotated[
        str | None,
        typer.Option(
            metavar="UUID",
            parser=_device,
            help="The GPU of nvshare v0.1.1 clients, which name none. [default: the first]",
        ),
    ] = None,
    exit_when_idle: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", parser=_idle, help="End after this time without a client, 0 to 86400. [default: never]"
        ),
    ] = None,
    pod_resources: Annotated[
        Path,
        typer.Option(
            metavar="SOCKET",
            parser=path_of,
            help="kubelet's pod resources socket, which tells what containers hold; it need not exist.",
        ),
    ] = paths.POD_RESOURCES_SOCKET,
    fail_on_init_error: Annotated[
        FailOnInitError,
        typer.Option(
            help="End, for who starts it anew, when NVML's library or the driver stays away and there is no client. "
            "auto: where the machine has a GPU of NVIDIA. For containers, which get NVML only when they are made."
        ),
    ] = FailOnInitError.FALSE,
    init_error_seconds: Annotated[
        float,
        typer.Option(metavar="SECONDS", parser=_idle, help="How long NVML may stay away before that, 0 to 86400."),
    ] = INIT_ERROR_SECONDS,
    await_annotations: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            parser=_grace,
            help="A program in a pod gets no memory before nvshare-node-agent has told what the pod's annotations say; "
            "after this time, 0.1 to 86400, memory is refused to it until then. For nodes with a node agent. [default: "
            "not awaited]",
        ),
    ] = None,
    metrics_address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            parser=_address,
            help="Serve /metrics, /healthz and /readyz here, to everybody who reaches it. [default: nowhere]",
        ),
    ] = None,
    _show_version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    caller: Caller = context.obj
    if swap_size is not None and swap_dir is None:
        raise typer.BadParameter("--swap-size says how much may be in --swap-dir, which is missing")
    *others, chosen = (paths.RunDir(run_dir),) if run_dir is not None else paths.run_dirs(caller.environment)
    path_of(str(chosen.root))  # The environment may name it, too.
    debug, complaint = switches.read(paths.DEBUG, caller.environment)
    options = Options(
        chosen,
        Settings(
            policy=policy,
            quantum_seconds=quantum,
            grace_seconds=grace,
            longest_turn=longest_turn,
            floor=floor,
            burst_seconds=burst,
            unresponsive=unresponsive,
            reserve_bytes=reserve,
            sleep_after_seconds=sleep_after,
        ),
        legacy_device,
        exit_when_idle,
        version(),
        pod_resources,
        metrics_address,
        host_memory,
        None if swap_dir is None else swap_dir.absolute(),
        swap_size,
        {FailOnInitError.AUTO: None}.get(fail_on_init_error, fail_on_init_error is FailOnInitError.TRUE),
        init_error_seconds,
        await_annotations,
        caller.environment.get(paths.NOTIFY_SOCKET, ""),
        debug,
    )
    level = log_level or (LogLevel.DEBUG if debug else LogLevel.INFO)
    caller.tell(CommandLine(options, tuple(others), log_format, level, complaint))
