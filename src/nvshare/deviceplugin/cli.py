"""The command line of nvshare-device-plugin."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Never

import typer

from nvshare import shim
from nvshare.command_classes import Group
from nvshare.deviceplugin.answers.allocation import DeviceListStrategy
from nvshare.deviceplugin.host.install import InstallError, install, read_library
from nvshare.deviceplugin.settings import sources
from nvshare.deviceplugin.settings.checks import FIELDS
from nvshare.deviceplugin.settings.choice import SETTINGS, Choice, Settings
from nvshare.deviceplugin.settings.choosing import LABEL, choose
from nvshare.deviceplugin.settings.configuration import Configuration
from nvshare.log import LogFormat, LogLevel
from nvshare.path_option import path_of
from nvshare.paths import RUN_DIR, SYSTEM_RUN_DIR, RunDir
from nvshare.program import complain
from nvshare.version import version

USAGE_ERROR = 2
FAILURE = 1
NAME = "nvshare-device-plugin"


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose command line it is: the typer context's ``obj``."""

    environment: Mapping[str, str]
    tell: Callable[[Settings], None]
    """Takes the settings of a plugin that shall serve."""


app = typer.Typer(
    cls=Group,
    help="Offers each GPU of this node to kubelet several times over, so that containers share it in turns.",
    epilog="Every option but --config, --config-dir and --config-default is also a key of the file and an environment "
    "variable: NVSHARE_PLUGIN_ and its name, but NVSHARE_RUN_DIR, NVSHARE_VIRTUAL_DEVICES, NVSHARE_MEMORY and "
    "NVSHARE_ON_MISSING. "
    "An option wins over the environment, the environment over the file.",
    add_completion=True,
    no_args_is_help=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_DEFAULTS = Configuration()


def _option(key: str, metavar: str | None, text: str, default: str = "") -> Any:
    """The option of a setting; ``default``: in words, where the value itself says nothing.

    It has no default of its own: what the command line does not say, the environment or the file may.
    """
    shown = default or _words(getattr(_DEFAULTS, key))
    return typer.Option(help=f"{text} [default: {shown}]", metavar=metavar, show_default=False)


def _words(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case tuple():
            return ", ".join(str(each) for each in value)
        case _:
            return str(value)


def _path(metavar: str, text: str) -> Any:
    return typer.Option(help=text, show_default=False, metavar=metavar, parser=path_of)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"{NAME} {version()}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def serve(
    context: typer.Context,
    config: Annotated[Path | None, _path("FILE", "YAML file with settings.")] = None,
    config_dir: Annotated[
        Path | None,
        _path("DIR", f"Folder of YAML files; the node's label {LABEL} names the one that counts, also later."),
    ] = None,
    config_default: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The one that counts for nodes without that label.", show_default=False),
    ] = None,
    resource_name: Annotated[str | None, _option("resource_name", "RESOURCE", "Resource that pods request.")] = None,
    allocation: Annotated[
        str | None,
        _option(
            "allocation",
            "plugin|dra",
            "plugin: pods request the resource, and get virtual devices. dra: they claim memory of GPUs, by dynamic "
            "resource allocation; that needs Kubernetes 1.34, a service account and --node-name.",
        ),
    ] = None,
    node_name: Annotated[
        str | None, _option("node_name", "NAME", "With dra: the node, as the Kubernetes API calls it.", "none")
    ] = None,
    overcommit: Annotated[
        str | None,
        _option(
            "overcommit",
            "FACTOR",
            "With dra: how many times its memory can be claimed of a GPU, as host memory allows, 1 to 10.",
        ),
    ] = None,
    kubelet_dir: Annotated[str | None, _option("kubelet_dir", "DIR", "kubelet's device plugin folder.")] = None,
    library_dir: Annotated[str | None, _option("library_dir", "DIR", "Where the library is installed.")] = None,
    run_dir: Annotated[str | None, _option("run_dir", "DIR", "The scheduler's run directory on the host.")] = None,
    virtual_devices: Annotated[
        str | None, _option("virtual_devices", "NUMBER", "Virtual devices of each GPU, 1 to 1000.")
    ] = None,
    include: Annotated[
        str | None, _option("include", "GPUS", "Offer only these GPUs: UUIDs or indices, comma-separated.", "all")
    ] = None,
    exclude: Annotated[
        str | None, _option("exclude", "GPUS", "Never offer these GPUs: UUIDs or indices, comma-separated.", "none")
    ] = None,
    device_list_strategy: Annotated[
        str | None,
        _option(
            "device_list_strategy",
            "WAYS",
            f"How GPUs get into containers: one or more of {', '.join(DeviceListStrategy)}, comma-separated.",
        ),
    ] = None,
    cdi_kind: Annotated[str | None, _option("cdi_kind", "KIND", "Kind of NVIDIA's CDI devices.")] = None,
    cdi_annotation_prefix: Annotated[
        str | None, _option("cdi_annotation_prefix", "PREFIX", "Prefix of CDI annotations.")
    ] = None,
    cdi_own_kind: Annotated[str | None, _option("cdi_own_kind", "KIND", "Kind of nvshare's own CDI devices.")] = None,
    cdi_spec_dir: Annotated[
        str | None, _option("cdi_spec_dir", "DIR", "Where nvshare's own CDI devices are described.")
    ] = None,
    compat_with_cpu_manager: Annotated[
        bool | None,
        _option(
            "compat_with_cpu_manager",
            None,
            "Name device nodes, for kubelet's static CPU manager; needs a privileged plugin.",
        ),
    ] = None,
    nvidia_dev_root: Annotated[
        str | None,
        _option(
            "nvidia_dev_root", "DIR", "With --compat-with-cpu-manager: the folder that has the host's dev/nvidia*."
        ),
    ] = None,
    require_distinct: Annotated[
        bool | None, _option("require_distinct", None, "Refuse requests for more than there are GPUs.")
    ] = None,
    fail_requests_greater_than_one: Annotated[
        bool | None, _option("fail_requests_greater_than_one", None, "Refuse requests for more than one.")
    ] = None,
    allocation_policy: Annotated[
        str | None,
        _option(
            "allocation_policy",
            "spread|packed",
            "spread: the GPUs with the fewest allocations first. packed: those with the most.",
        ),
    ] = None,
    weigh_by_load: Annotated[
        bool | None, _option("weigh_by_load", None, "Prefer GPUs with little live load, not few allocations.")
    ] = None,
    numa_hints: Annotated[
        bool | None, _option("numa_hints", None, "Tell kubelet's topology manager where GPUs are.")
    ] = None,
    mig_strategy: Annotated[
        str | None,
        _option(
            "mig_strategy",
            "single|mixed|none",
            "single: MIG devices are offered as GPUs are. mixed: each profile is a resource of its own, "
            "nvshare.com/mig-1g.10gb. none: GPUs in MIG mode are left out.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        _option(
            "memory",
            "swap|managed|native",
            "NVSHARE_MEMORY of containers: what becomes of their memory.",
            "not set, which is swap where the GPU can",
        ),
    ] = None,
    on_missing: Annotated[
        str | None,
        _option(
            "on_missing",
            "wait|run|fail",
            "NVSHARE_ON_MISSING of containers: what they do as long as they find no scheduler.",
            "not set, which is wait",
        ),
    ] = None,
    ignored_xids: Annotated[
        str | None,
        _option(
            "ignored_xids",
            "XIDS",
            "XIDs that leave a GPU healthy, besides application faults, comma-separated.",
            "none",
        ),
    ] = None,
    recovery_seconds: Annotated[
        str | None,
        _option("recovery_seconds", "SECONDS", "Time without errors after which a GPU is healthy again, 0 to 86400."),
    ] = None,
    scheduler_grace_seconds: Annotated[
        str | None,
        _option("scheduler_grace_seconds", "SECONDS", "How long devices stay healthy without a scheduler, 0 to 86400."),
    ] = None,
    fail_on_init_error: Annotated[
        bool | None,
        _option(
            "fail_on_init_error",
            None,
            "End, to be started anew, if NVML or the driver stays away.",
            "where there is an NVIDIA GPU",
        ),
    ] = None,
    init_error_seconds: Annotated[
        str | None, _option("init_error_seconds", "SECONDS", "How long they may stay away before that, 0 to 86400.")
    ] = None,
    metrics_address: Annotated[
        str | None, _option("metrics_address", "HOST:PORT", "Where /metrics, /healthz and /readyz are served.")
    ] = None,
    log_format: Annotated[LogFormat | None, _option("log_format", None, "How log lines on stderr look.")] = None,
    log_level: Annotated[LogLevel | None, _option("log_level", None, "The least severity of what is logged.")] = None,
    print_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Offers each GPU of this node to kubelet several times over, so that containers share it in turns."""
    flags = {key: value for key, value in locals().items() if key in FIELDS}
    caller: Caller = context.obj
    settings = _settings(flags, caller.environment, config, config_dir, config_default)
    if context.invoked_subcommand is None:
        caller.tell(settings)
    context.obj = settings


@app.command("install-library", short_help="Copies libnvshare.so to the host.")
def install_library(
    context: typer.Context,
    source: Annotated[
        Path | None, _path("FILE", "The library to install. [default: the one that nvshare ships]")
    ] = None,
    library_dir: Annotated[
        Path | None, _path("DIR", "Folder on the host. [default: --library-dir of before the command]")
    ] = None,
) -> None:
    """Copies libnvshare.so to the host, beside older versions: those stay, running pods use them."""
    configuration: Configuration = context.obj.configuration
    try:
        library = read_library(source or shim.library_path(), version())
        target, new = install(library, library_dir or configuration.library_dir)
    except (InstallError, FileNotFoundError) as error:
        _fail(str(error), FAILURE)
    print(f"{target} {'installed' if new else 'was already there'}")


@app.command(SETTINGS, hidden=True)
def write_settings(context: typer.Context) -> None:
    """Writes what the rest of the command line leads to, for a plugin that serves: it reads no settings itself."""
    pickle.dump(context.obj, sys.stdout.buffer)


def _settings(
    flags: dict[str, Any],
    environment: Mapping[str, str],
    config: Path | None,
    config_dir: Path | None,
    config_default: str | None,
) -> Settings:
    try:
        if config_dir is None and config_default is None:
            return Settings(sources.load(flags, environment, config))
        if config_dir is None or config_default is None or config is not None:
            raise sources.ConfigurationError("--config-dir and --config-default go together, and without --config")
        run_dir = RunDir(Path(flags["run_dir"] or environment.get(RUN_DIR) or SYSTEM_RUN_DIR))
        return choose(Choice(config_dir, config_default, run_dir.node_config), flags, environment)
    except sources.ConfigurationError as error:
        _fail(str(error), USAGE_ERROR)


def _fail(message: str, code: int) -> Never:
    for line in message.splitlines():
        complain(NAME, line)
    raise SystemExit(code)
