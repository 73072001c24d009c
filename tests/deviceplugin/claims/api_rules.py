"""What the API server asks of a ResourceSlice, as its validation has it (Kubernetes 1.36)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NAME = re.compile(r"([a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?/)?[A-Za-z_][A-Za-z0-9_]{0,31}")
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")


def amount(text: str) -> int:
    """What a quantity means; only those that the driver writes."""
    match = re.fullmatch(r"(\d+)([KMGTPE]i)?", text)
    assert match is not None, text
    return int(match[1]) * _UNITS[match[2] or ""]


def mistakes(document: dict[str, Any]) -> list[str]:
    """Why the API server refuses this slice; empty: it takes it."""
    return list(_mistakes(document["spec"]))


def _mistakes(spec: dict[str, Any]) -> Iterator[str]:
    pool, devices = spec["pool"], spec["devices"]
    if pool["resourceSliceCount"] <= 0 or pool["generation"] < 0:
        yield f"{pool} is wrong"
    if len(devices) > (64 if any(each.get("taints") for each in devices) else 128):
        yield f"{len(devices)} devices"
    if len({each["name"] for each in devices}) < len(devices):
        yield "a name is there twice"
    for device in devices:
        yield from (f"{device['name']}: {mistake}" for mistake in _of_device(device))


def _of_device(device: dict[str, Any]) -> Iterator[str]:
    if _LABEL.fullmatch(device["name"]) is None:
        yield "the name is none"
    if len(device["attributes"]) + len(device["capacity"]) > 32:
        yield "more than 32 attributes and capacities"
    for name, attribute in device["attributes"].items():
        if _NAME.fullmatch(name) is None:
            yield f"attribute {name}"
        ((kind, value),) = attribute.items()
        fits = {
            "string": lambda value: 0 < len(value) <= 64,
            "version": lambda value: _VERSION.fullmatch(value) is not None and len(value) <= 64,
            "int": lambda value: isinstance(value, int) and -(1 << 63) <= value < 1 << 63,
        }
        if not fits[kind](value):
            yield f"{name}: {kind} {value!r}"
    for name, capacity in device["capacity"].items():
        yield from (f"{name}: {mistake}" for mistake in _of_capacity(capacity))
    for taint in device.get("taints", ()):
        if _LABEL_VALUE.fullmatch(taint["value"]) is None or taint["effect"] not in ("NoSchedule", "NoExecute", "None"):
            yield f"taint {taint}"


def _of_capacity(capacity: dict[str, Any]) -> Iterator[str]:
    value, policy = amount(capacity["value"]), capacity["requestPolicy"]
    default, allowed = amount(policy["default"]), policy["validRange"]
    least = amount(allowed["min"])
    if not least <= default <= value:
        yield f"default {default} is not from {least} to {value}"
    most = amount(allowed["max"]) if "max" in allowed else None
    if most is not None and not (default <= most <= value and least <= most):
        yield f"max {most}, default {default}, value {value}"
    if "step" in allowed:
        step = amount(allowed["step"])
        if least + step > value:
            yield f"one step {step} from {least} is more than {value}"
        if any((each - least) % step for each in (default, most) if each is not None):
            yield f"default {default} or max {most} is no number of steps {step} from {least}"
