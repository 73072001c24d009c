"""Settings: where they come from, and what is said about wrong ones."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from nvshare.deviceplugin.answers.allocation import DeviceListStrategy
from nvshare.deviceplugin.settings.checks import FIELDS
from nvshare.deviceplugin.settings.configuration import Configuration
from nvshare.deviceplugin.settings.sources import ConfigurationError, load, variable
from nvshare.paths import SYSTEM_RUN_DIR


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def mistakes(text: str, file: Path) -> list[str]:
    """What is wrong with a file of this content, line by line, without the file's name."""
    file.write_text(text)
    with pytest.raises(ConfigurationError) as error:
        load({}, {}, file)
    lines = str(error.value).splitlines()
    assert all(line.startswith(f"{file}: ") for line in lines)
    return [line.removeprefix(f"{file}: ") for line in lines]


def test_nothing_set() -> None:
    """The defaults are those of the manifests: ten virtual devices of each GPU, as nvshare.com/gpu."""
    configuration = load({}, {"PATH": "/bin"}, None)
    assert configuration == Configuration()
    assert (configuration.resource_name, configuration.virtual_devices) == ("nvshare.com/gpu", 10)


def test_flag_wins_over_environment_over_file(file: Path) -> None:
    """Each setting comes from the first of the three that sets it."""
    file.write_text("virtual_devices: 3\nrecovery_seconds: 5\ninclude: [0]\n")
    environment = {"NVSHARE_VIRTUAL_DEVICES": "4", "NVSHARE_PLUGIN_RECOVERY_SECONDS": "1.5"}
    configuration = load({"virtual_devices": "7", "include": None}, environment, file)
    assert (configuration.virtual_devices, configuration.recovery_seconds, configuration.include) == (7, 1.5, ("0",))


PLACES = {
    "kubelet_dir": "/var/lib/kubelet/device-plugins",
    "library_dir": "/var/lib/nvshare",
    "run_dir": "/var/run/nvshare",
    "metrics_address": "0.0.0.0:9403",
}


@pytest.mark.parametrize("key", PLACES)
def test_places_have_one_owner(key: str, file: Path) -> None:
    """Mounts and probes fit the command line: a file that says otherwise is refused, one that says the same is not."""
    other = "127.0.0.1:9999" if key == "metrics_address" else "/somewhere/else"
    file.write_text(f"{key}: {other}\n")
    with pytest.raises(ConfigurationError) as error:
        load(PLACES, {}, file)
    flag = f"--{key.replace('_', '-')}={PLACES[key]}"
    assert str(error.value).startswith(f"{file}: {key}: '{other}' is wrong: the command line has {flag}, which")
    file.write_text(f"{key}: {PLACES[key]}\n")
    assert load(PLACES, {}, file) == Configuration()
    file.write_text(f"{key}: {other}\n")
    assert str(getattr(load({}, {}, file), key)) == other


def test_environment_in_full() -> None:
    """Numbers, truth values and comma-separated lists."""
    environment = {
        variable("require_distinct"): "true",
        variable("weigh_by_load"): "0",
        variable("ignored_xids"): "48, 63",
        variable("device_list_strategy"): "cdi-cri,envvar",
        variable("exclude"): "1,GPU-x",
        "NVSHARE_MEMORY": "native",
        "NVSHARE_ON_MISSING": "",
        "NVSHARE_RUN_DIR": "/run/other",
    }
    configuration = load({}, environment, None)
    assert configuration.require_distinct
    assert not configuration.weigh_by_load
    assert configuration.ignored_xids == (48, 63)
    assert configuration.device_list_strategy == (DeviceListStrategy.CDI_CRI, DeviceListStrategy.ENVVAR)
    assert configuration.exclude == ("1", "GPU-x")
    assert configuration.memory == "native"
    assert configuration.on_missing is None
    assert configuration.run_dir == Path("/run/other")


@pytest.mark.parametrize("backend", ["managed", "native", "swap"])
def test_every_memory_backend_can_be_chosen(backend: str) -> None:
    """It is for the containers' library to say what its device can't do."""
    assert load({}, {"NVSHARE_MEMORY": backend}, None).memory == backend


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("virtual_devices: 0", "virtual_devices: 0 is wrong; allowed: an integer from 1 to 1000"),
        ("virtual_devices: 10000", "virtual_devices: 10000 is wrong; allowed: an integer from 1 to 1000"),
        ("virtual_devices: '10'", "virtual_devices: '10' is wrong; allowed: an integer from 1 to 1000"),
        ("virtual_devices: true", "virtual_devices: True is wrong; allowed: an integer from 1 to 1000"),
        ("virtual_devices_per_gpu: {GPU-a: 0}", "virtual_devices_per_gpu.GPU-a: 0 is wrong; allowed: GPU UUIDs, each"),
        ("virtual_devices_per_gpu: {card0: 3}", "virtual_devices_per_gpu.card0: 'card0' is wrong (not the UUID"),
        ("resource_name: a..b/gpu", "resource_name: 'a..b/gpu' is wrong (not of that form); allowed: DOMAIN/NAME"),
        ("resource_name: kubernetes.io/gpu", "resource_name: 'kubernetes.io/gpu' is wrong (kubelet refuses domains"),
        ("resource_name: requests.a/gpu", "resource_name: 'requests.a/gpu' is wrong (kubelet refuses domains"),
        (f"resource_name: {'a.' * 122}a/gpu", "resource_name: 'a.a."),
        ("resource_name: gpu", "resource_name: 'gpu' is wrong (not of that form); allowed: DOMAIN/NAME"),
        ("include: [0, card1]", "include[1]: 'card1' is wrong (neither a UUID nor an index); allowed: a list of GPU"),
        ("exclude: 0", "exclude: 0 is wrong; allowed: a list of GPU UUIDs or indices"),
        ("device_list_strategy: [cdi]", "device_list_strategy[0]: 'cdi' is wrong; allowed: one or more of envvar, "),
        (
            "device_list_strategy: []",
            "device_list_strategy: [] is wrong (empty); allowed: one or more of envvar",
        ),
        ("cdi_kind: nvidia", "cdi_kind: 'nvidia' is wrong (not of that form); allowed: VENDOR/CLASS"),
        ("cdi_annotation_prefix: cdi", "cdi_annotation_prefix: 'cdi' is wrong (not of that form); allowed: DOMAIN/"),
        ("require_distinct: sometimes", "require_distinct: 'sometimes' is wrong; allowed: true or false"),
        ("fail_requests_greater_than_one: 1", "fail_requests_greater_than_one: 1 is wrong; allowed: true or false"),
        ("weigh_by_load: []", "weigh_by_load: [] is wrong; allowed: true or false"),
        ("allocation: both", "allocation: 'both' is wrong; allowed: plugin or dra"),
        ("{allocation: dra, overcommit: 11}", "overcommit: 11 is wrong; allowed: a number from 1 to 10, and"),
        ("{allocation: dra, overcommit: .nan}", "overcommit: nan is wrong; allowed: a number from 1 to 10, and"),
        ("overcommit: 2", "overcommit: 2 is wrong (only with allocation: dra; virtual devices have no memory"),
        ("allocation_policy: binpack", "allocation_policy: 'binpack' is wrong; allowed: spread or packed"),
        ("numa_hints: 1", "numa_hints: 1 is wrong; allowed: true or false"),
        ("mig_strategy: both", "mig_strategy: 'both' is wrong; allowed: none or single or mixed"),
        (
            "cdi_own_kind: gpu",
            "cdi_own_kind: 'gpu' is wrong (not of that form); allowed: VENDOR/CLASS, as in",
        ),
        ("cdi_own_kind: nvidia.com/x", "cdi_own_kind: 'nvidia.com/x' is wrong (the runtime would confuse its devices "),
        (
            "cdi_kind: nvshare.com/gpu",
            "cdi_kind: 'nvshare.com/gpu' is wrong (the kind of nvshare's own devices)",
        ),
        ("cdi_spec_dir: cdi", "cdi_spec_dir: 'cdi' is wrong (not an absolute path without '..'); allowed: an absolute"),
        ("memory: disk", "memory: 'disk' is wrong; allowed: managed, native or swap"),
        ("on_missing: crash", "on_missing: 'crash' is wrong; allowed: run, wait or fail"),
        ("ignored_xids: [none]", "ignored_xids[0]: 'none' is wrong; allowed: a list of integers from 1 to 9999"),
        ("recovery_seconds: -1", "recovery_seconds: -1 is wrong; allowed: seconds from 0 to 86400"),
        ("scheduler_grace_seconds: .inf", "scheduler_grace_seconds: inf is wrong; allowed: seconds from 0 to 86400"),
        ("metrics_address: '9403'", "metrics_address: '9403' is wrong (not of the form HOST:PORT); allowed: HOST:PORT"),
        (
            "metrics_address: 'a:70000'",
            "metrics_address: 'a:70000' is wrong (not of the form HOST:PORT); allowed:",
        ),
        ("log_format: xml", "log_format: 'xml' is wrong; allowed: text or json"),
        ("run_dir: here", "run_dir: 'here' is wrong (not an absolute path without '..'); allowed: an absolute path"),
        ("library_dir: /a/../b", "library_dir: '/a/../b' is wrong (not an absolute path without '..'); allowed: an "),
        (f"kubelet_dir: /{'a' * 80}", f"kubelet_dir: '/{'a' * 80}' is wrong (81 characters are too long"),
        (
            "extra_env: {LD_PRELOAD: x}",
            "extra_env.LD_PRELOAD: 'LD_PRELOAD' is wrong (set by the plugin itself)",
        ),
        ("extra_env: {A B: x}", "extra_env.A B: 'A B' is wrong (not the name of an environment variable); allowed: "),
        ("extra_env: {A: 1}", "extra_env.A: 1 is wrong; allowed: environment variables with text values"),
        ("extra_mounts: [/a]", "extra_mounts[0]: '/a' is wrong; allowed: a list of mounts with host_path, "),
        ("extra_mounts: [{host_path: /a}]", "extra_mounts[0].container_path: missing; allowed: an absolute path"),
        (
            "extra_mounts: [{host_path: /a, container_path: /usr/lib/nvshare/x}]",
            "extra_mounts[0].container_path: '/usr/lib/nvshare/x' is wrong (/usr/lib/nvshare is mounted by the plugin",
        ),
        (
            "extra_mounts: [{host_path: /a, container_path: /b, readonly: true}]",
            "extra_mounts[0]: unknown key 'readonly' (did you mean read_only?); allowed: container_path, host_path, ",
        ),
        (
            "virtul_devices: 3",
            "unknown key 'virtul_devices' (did you mean virtual_devices?); allowed: allocation",
        ),
        ("- 1", "[1] is no configuration; allowed: a mapping of allocation, "),
    ],
)
def test_wrong_file(text: str, expected: str, file: Path) -> None:
    """One line names the key, the value and what is allowed."""
    (line,) = mistakes(text, file)
    assert line.startswith(expected)


def test_a_file_of_something_else(file: Path) -> None:
    """Its first keys are named in one line, of each not much, and once what is allowed."""
    (line,) = mistakes("".join(f"{number}-{'x' * 100}: 1\n" for number in range(30)), file)
    named, _, allowed = line.partition("; allowed: ")
    assert named.startswith("unknown keys '0-xxxx")
    assert named.endswith(" and 22 more")
    assert len(named) < 400
    assert allowed.count("virtual_devices,") == 1


def test_a_text_of_something_else(file: Path) -> None:
    """Of what may be secret little is in a log."""
    (line,) = mistakes("word " * 1000, file)
    assert len(line.partition(" is no configuration; ")[0]) < 50


def test_one_place_has_one_mount(file: Path) -> None:
    """However it is written."""
    (line,) = mistakes(
        "extra_mounts: [{host_path: /a, container_path: /c}, {host_path: /b, container_path: /c/}]", file
    )
    assert "is wrong (/c is mounted twice); allowed: a list of mounts with host_path, " in line


def test_every_mistake_is_named(file: Path) -> None:
    """Not only the first: nobody wants to restart a plugin four times."""
    found = mistakes("virtual_devices: 0\nmemry: native\nlog_format: xml\ninclude: [x, y]\n", file)
    assert [line.partition(":")[0] for line in found] == [
        "unknown key 'memry' (did you mean memory?); allowed",
        "virtual_devices",
        "include[0]",
        "include[1]",
        "log_format",
    ]


@pytest.mark.parametrize(
    ("flags", "environment", "expected"),
    [
        ({"virtual_devices": "0"}, {}, "--virtual-devices: 0 is wrong; allowed: an integer from 1 to 1000"),
        ({"include": ""}, {}, "--include[0]: '' is wrong (neither a UUID nor an index); allowed: a list of GPU UUIDs"),
        ({"exclude": "0,,1"}, {}, "--exclude[1]: '' is wrong (neither a UUID nor an index); allowed: a list of GPU"),
        ({}, {variable("include"): ","}, "environment: NVSHARE_PLUGIN_INCLUDE[0]: '' is wrong (neither a UUID nor"),
        ({"ignored_xids": "48,"}, {}, "--ignored-xids[1]: '' is wrong; allowed: a list of integers from 1 to 9999"),
        ({"device_list_strategy": ""}, {}, "--device-list-strategy[0]: '' is wrong; allowed: one or more of envvar"),
        ({"node_name": ""}, {}, "--node-name: '' is wrong (not of that form); allowed: the name of a node"),
        ({"virtual_devices": "1_0"}, {}, "--virtual-devices: '1_0' is wrong; allowed: an integer from 1 to 1000"),
        ({"recovery_seconds": " 5"}, {}, "--recovery-seconds: ' 5' is wrong; allowed: seconds from 0 to 86400"),
        ({"virtual_devices": "ten"}, {}, "--virtual-devices: 'ten' is wrong; allowed: an integer from 1 to 1000"),
        ({}, {"NVSHARE_VIRTUAL_DEVICES": "10000"}, "environment: NVSHARE_VIRTUAL_DEVICES: 10000 is wrong; allowed: an"),
        (
            {},
            {variable("weigh_by_load"): "maybe"},
            "environment: NVSHARE_PLUGIN_WEIGH_BY_LOAD: 'maybe' is wrong",
        ),
        (
            {},
            {"NVSHARE_PLUGIN_INCLUD": "0"},
            "environment: unknown variable NVSHARE_PLUGIN_INCLUD (did you mean NVSHARE_PLUGIN_INCLUDE?); allowed: NVSH",
        ),
        (
            {},
            {"NVSHARE_PLUGIN_MEMORY": "swap"},
            "environment: unknown variable NVSHARE_PLUGIN_MEMORY (did you mean NVSHARE_MEMORY?); allowed: NVSH",
        ),
        ({}, {"NVSHARE_PLUGIN_CONFIG": "0"}, "environment: unknown variable NVSHARE_PLUGIN_CONFIG; allowed: NVSH"),
        (
            {},
            {"NVSHARE_PLUGIN_BOGUS": "0", "NVSHARE_PLUGIN_FRACTION": "1"},
            "environment: unknown variables NVSHARE_PLUGIN_BOGUS, NVSHARE_PLUGIN_FRACTION; allowed: NVSH",
        ),
    ],
)
def test_wrong_flag_or_variable(flags: dict[str, Any], environment: dict[str, str], expected: str) -> None:
    """The message calls the setting as the user did."""
    with pytest.raises(ConfigurationError) as error:
        load(flags, environment, None)
    assert str(error.value).startswith(expected)


def test_service_links_are_no_settings() -> None:
    """Kubernetes sets variables for every Service of the namespace, whatever it is called."""
    links = {
        "NVSHARE_PLUGIN_SERVICE_HOST": "10.0.0.1",
        "NVSHARE_PLUGIN_METRICS_SERVICE_PORT_HTTP": "9403",
        "NVSHARE_PLUGIN_METRICS_PORT": "tcp://10.0.0.1:9403",
        "NVSHARE_PLUGIN_METRICS_PORT_9403_TCP_ADDR": "10.0.0.1",
    }
    assert load({}, links, None) == Configuration()


def test_unreadable_files(file: Path) -> None:
    """A missing file and one that is no YAML are named; an empty one sets nothing."""
    with pytest.raises(ConfigurationError, match=r"config.yaml: No such file .*--config"):
        load({}, {}, file)
    file.write_text("a: [")
    with pytest.raises(ConfigurationError, match=r"config\.yaml: not YAML"):
        load({}, {}, file)
    file.write_text("# nothing\n")
    assert load({}, {}, file) == Configuration()


ALIASES = "".join(
    (
        "a: &a [0]\n",
        *(f"{name}: &{name} [{', '.join([f'*{of}'] * 9)}]\n" for of, name in itertools.pairwise("abcdefg")),
        "include: [*g]",
    )
)
"""Lists of lists of lists: few bytes here, and millions when they are written out."""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("recovery_seconds: 2026-13-45", "not YAML: month must be in 1..12"),
        ("virtual_devices: 5\nvirtual_devices: 6", "'virtual_devices' is there twice; allowed: once"),
        ("extra_env: {A: x, A: y}", "'A' is there twice; allowed: once"),
        ("extra_env: &own {A: *own}", "extra_env.A"),
        ('library_dir: "/a\\0b"', "library_dir: '/a\\\\x00b' is wrong .it has a NUL character"),
        ('extra_env: {A: "a\\0b"}', "extra_env.A: 'a\\\\x00b' is wrong .it has a NUL character"),
        ("node_name: a/b", "node_name: 'a/b' is wrong .*the name of a node"),
        ("include: [0\nexclude: [1", r"not YAML: expected ',' or ']', but got ':' \(line 2, column 8\)$"),
        ("a: *b", r"not YAML: found undefined alias 'b' \(line 1, column 4\)$"),
        ("a: \0", r"not YAML: unacceptable character #x0000: .* position 3$"),
        (f"memory: {'x' * 100_000}", r"memory: 'x+\.\.\.x+' is wrong; allowed: managed, native or swap$"),
        (f"virtual_devices: 0x{'f' * 5000}", "virtual_devices: a number of thousands of digits is wrong"),
        (ALIASES, r"config.yaml: include\[0\]: \[+\.\.\.[^0]* is wrong"),
    ],
)
def test_files_that_can_not_be_meant(file: Path, content: str, said: str) -> None:
    """Each is named, whatever YAML makes of it."""
    file.write_text(content)
    with pytest.raises(ConfigurationError, match=said):
        load({}, {}, file)


def test_every_setting_says_what_is_allowed() -> None:
    """The text for a wrong value stands where the check does."""
    assert all(field.description for field in FIELDS.values())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"library_dir": "/var/run/nvshare"}, "--library-dir: '/var/run/nvshare' is wrong (that is run_dir as well)"),
        ({"library_dir": "/run/nvshare/"}, "--library-dir: '/run/nvshare/' is wrong (that is run_dir as well)"),
        ({"run_dir": "/x", "library_dir": "/x"}, "--run-dir: '/x' is wrong (that is library_dir as well)"),
        ({"cdi_spec_dir": "/var/lib/nvshare"}, "--cdi-spec-dir: '/var/lib/nvshare' is wrong (that is library_dir as"),
        (
            {"run_dir": "/var/lib/kubelet/device-plugins"},
            "is wrong (that is kubelet_dir as well); allowed: a folder of",
        ),
    ],
)
def test_each_folder_is_one_parts(flags: dict[str, str], message: str) -> None:
    """kubelet empties its own when it starts, and what is installed must not lie among sockets."""
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        load(flags, {}, None)


def test_folders_can_change_places() -> None:
    """What is compared is where they are in the end."""
    configuration = load({"library_dir": "/var/run/nvshare", "run_dir": "/var/lib/nvshare"}, {}, None)
    assert configuration.library_dir == SYSTEM_RUN_DIR
