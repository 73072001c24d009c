"""Where settings come from: flags win over the environment, the environment over the file. Every mistake is named."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from nvshare import paths
from nvshare.deviceplugin.settings.checks import FIELDS, MOUNT_FIELDS, checked
from nvshare.deviceplugin.settings.configuration import MOST_BYTES, Configuration
from nvshare.numbers import number_of, whole_number_of
from nvshare.regular_files import read_regular

ENVIRONMENT_PREFIX = "NVSHARE_PLUGIN_"
# What Kubernetes puts into every container of a namespace with a Service called nvshare-plugin or so.
_SERVICE_LINK = re.compile(r"\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)")
# Variables that mean the same for other parts of nvshare keep their names here.
_SHARED_VARIABLES = {
    paths.VIRTUAL_DEVICES: "virtual_devices",
    paths.RUN_DIR: "run_dir",
    paths.MEMORY: "memory",
    paths.ON_MISSING: "on_missing",
}
# Nested values: only a file has room for them.
_FILE_ONLY = frozenset({"virtual_devices_per_gpu", "extra_mounts", "extra_env"})
# What the command line says of these, a pod's mounts and probes fit: a file that says otherwise would be a mistake.
_PLACES = ("kubelet_dir", "library_dir", "run_dir", "metrics_address")
_FOLDERS = ("kubelet_dir", "library_dir", "run_dir", "cdi_spec_dir")
_LISTS = frozenset({"include", "exclude", "device_list_strategy", "ignored_xids"})


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200
_KEY = reprlib.Repr()
_KEY.maxstring = 40
"""What is no configuration at all may be anything: little of it shall be in a log."""
_MOST_NAMED = 8
_ALIKE = 0.8
"""A word that is less like another is no slip in writing that: a far-fetched guess would mislead."""


class ConfigurationError(Exception):
    """The user set something wrongly; the text has one line for each mistake."""


@dataclass(frozen=True, slots=True)
class _Given:
    """A value and where it was set, in the user's own words."""

    value: Any
    origin: str


def load(flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None) -> Configuration:
    """The settings of these three; raises ConfigurationError naming every wrong key and value and what is allowed."""
    given: dict[str, _Given] = {}
    mistakes: list[str] = []
    if file is not None:
        given.update(_from_file(file, mistakes))
        mistakes += _misplaced(given, flags)
    given.update(_from_environment(environment, mistakes))
    given.update({key: _Given(_parsed(key, value), _flag(key)) for key, value in flags.items() if value is not None})
    try:
        configuration = checked({key: item.value for key, item in given.items()})
    except ValidationError as error:
        mistakes += [_explain(details, given) for details in error.errors()]
        raise ConfigurationError("\n".join(mistakes)) from error
    mistakes += _shared(configuration, given)
    if mistakes:
        raise ConfigurationError("\n".join(mistakes))
    return configuration


def _misplaced(given: Mapping[str, _Given], flags: Mapping[str, Any]) -> Iterator[str]:
    """A line for each place that the file wants elsewhere than the command line."""
    for key in _PLACES:
        flag = flags.get(key)
        if key in given and flag is not None and Path(str(given[key].value)) != Path(flag):
            yield (
                f"{given[key].origin}: {given[key].value!r} is wrong: the command line has {_flag(key)}={flag}, which "
                "the pod's mounts and probes fit: remove it here, or change all of these in the DaemonSet"
            )


def _shared(configuration: Configuration, given: Mapping[str, _Given]) -> Iterator[str]:
    """A line for each folder that is set to another one's: kubelet, scheduler and runtimes clean theirs up."""
    taken: dict[Path, str] = {}
    # Those that are not set come first: what is wrong is what was set.
    for key in sorted(_FOLDERS, key=lambda key: key in given):
        # On most machines one is a link to the other.
        folder = Path(re.sub("^/var/run/", "/run/", str(getattr(configuration, key))))
        if folder in taken:
            yield (
                f"{given[key].origin}: {given[key].value!r} is wrong (that is {taken[folder]} as well); "
                "allowed: a folder of its own"
            )
        taken[folder] = key


def variable(key: str) -> str:
    """The environment variable of a setting."""
    return next((name for name, of in _SHARED_VARIABLES.items() if of == key), ENVIRONMENT_PREFIX + key.upper())


def _flag(key: str) -> str:
    return "--" + key.replace("_", "-")


def _from_file(file: Path, mistakes: list[str]) -> dict[str, _Given]:
    try:
        text = read_regular(file, MOST_BYTES).decode()
        content, repeated = yaml.safe_load(text), _repeated(yaml.compose(text, yaml.SafeLoader))
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}: name a file with --config that can be read") from error
    except RecursionError as error:
        raise ConfigurationError(f"{file}: not YAML that can be read: it is nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:
        # The last: no UTF-8, a date that there is not, a number with thousands of digits.
        raise ConfigurationError(f"{file}: not YAML: {_fault(error)}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigurationError(
            f"{file}: {_shown(content, _KEY)} is no configuration; allowed: a mapping of {_names(_keys())}"
        )
    mistakes += [f"{file}: {key!r} is there twice; allowed: once" for key in repeated]
    unknown = [(_shown(key, _KEY), key if isinstance(key, str) else "") for key in content if key not in _keys()]
    mistakes += _unknown(f"{file}: unknown key", unknown, {key: key for key in _keys()})
    return {key: _Given(value, f"{file}: {key}") for key, value in content.items() if key in _keys()}


def _repeated(file: Any) -> Iterator[str]:
    """The keys that the file, or a mapping that is a value in it, has more than once: YAML would take the last."""
    if isinstance(file, yaml.MappingNode):
        for mapping in (file, *(value for _, value in file.value if isinstance(value, yaml.MappingNode))):
            keys = [key.value for key, _ in mapping.value if isinstance(key, yaml.ScalarNode)]
            yield from sorted({key for key in keys if keys.count(key) > 1})


def _from_environment(environment: Mapping[str, str], mistakes: list[str]) -> dict[str, _Given]:
    by_variable = {variable(key): key for key in _keys() if key not in _FILE_ONLY}
    unknown = [
        # What all variables begin with makes none alike.
        (name, name.removeprefix(ENVIRONMENT_PREFIX).lower())
        for name in sorted(environment.keys() - by_variable.keys())
        if name.startswith(ENVIRONMENT_PREFIX) and _SERVICE_LINK.fullmatch(name) is None
    ]
    mistakes += _unknown("environment: unknown variable", unknown, {key: name for name, key in by_variable.items()})
    return {
        key: _Given(_parsed(key, environment[name]), f"environment: {name}")
        for name, key in by_variable.items()
        if environment.get(name)
    }


def _parsed(key: str, value: Any) -> Any:
    """A text from the environment or the command line as the type that the setting has; unchanged if it is not one."""
    if not isinstance(value, str):
        return value
    if key in _LISTS:
        items = [item.strip() for item in value.split(",")]
        return [_number(item) for item in items] if key == "ignored_xids" else items
    annotation = str(FIELDS[key].annotation)
    if "bool" in annotation:
        return {"true": True, "1": True, "false": False, "0": False}.get(value.lower(), value)
    if "int" in annotation or "float" in annotation:
        return _number(value)
    return value


def _number(text: str) -> int | float | str:
    for meaning in (whole_number_of, number_of):
        with suppress(ValueError):
            return meaning(text)
    return text


def _explain(details: ErrorDetails, given: Mapping[str, _Given]) -> str:
    """One line: where it was set, the value, and what is allowed instead."""
    key, *rest = details["loc"]
    inner = [part for part in rest if part != "[key]"]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in inner)
    origin = given[str(key)].origin + where
    field = FIELDS[str(key)]
    allowed = field.description
    names = [part for part in rest if isinstance(part, str)]
    if key == "extra_mounts" and names and details["type"] == "extra_forbidden":
        what = f"{given[str(key)].origin}[{rest[0]}]: unknown key"
        return "".join(_unknown(what, [(_shown(names[0], _KEY), names[0])], {name: name for name in MOUNT_FIELDS}))
    if key == "extra_mounts" and names and names[0] in MOUNT_FIELDS:
        allowed = MOUNT_FIELDS[names[0]].description
    if details["type"] == "missing":
        return f"{origin}: missing; allowed: {allowed}"
    why = f" ({details['msg']})" if details["type"] == "nvshare" else ""
    return f"{origin}: {_shown(details['input'])} is wrong{why}; allowed: {allowed}"


def _fault(error: Exception) -> str:
    """What is no YAML, and where, in one line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem} (line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1})"
    return " ".join(str(error).split())


def _shown(value: Any, by: reprlib.Repr = _SHORT) -> str:
    """A wrong value, what begins and ends one that is long."""
    try:
        return by.repr(value)
    except ValueError:
        return "a number of thousands of digits"


def _keys() -> Iterable[str]:
    return FIELDS


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _unknown(what: str, wrong: Sequence[tuple[str, str]], right: Mapping[str, str]) -> Iterator[str]:
    """One line for all that is unknown, if anything is: the first of it, and what is allowed.

    Of each how it is shown and what it is compared by; what is ``right`` by what it is compared by.
    """
    if wrong:
        named = [shown + _guess(compared, right) for shown, compared in wrong[:_MOST_NAMED]]
        more = f" and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
        yield f"{what}{'s' if len(wrong) > 1 else ''} {', '.join(named)}{more}; allowed: {_names(right.values())}"


def _guess(wrong: str, right: Mapping[str, str]) -> str:
    close = difflib.get_close_matches(wrong, list(right), n=1, cutoff=_ALIKE)
    return f" (did you mean {right[close[0]]}?)" if close else ""
