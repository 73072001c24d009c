"""Which device a person means."""

from __future__ import annotations

from collections.abc import Iterable

from nvshare.admin import admin_pb2
from nvshare.admin.admin_pb2_grpc import AdminStub
from nvshare.ctl.asking.admin_client import RPC_TIMEOUT
from nvshare.ctl.errors import CommandError

_PREFIXES = ("gpu-", "mig-")


def uuid_of(text: str | None, scheduler: AdminStub) -> str:
    """The UUID of the device that the scheduler knows by this text; empty for None: all devices."""
    if text is None:
        return ""
    return chosen(text, scheduler.GetStatus(admin_pb2.GetStatusRequest(), timeout=RPC_TIMEOUT))


def chosen(text: str, status: admin_pb2.Status) -> str:
    """The UUID of the device with this index or UUID, or whose UUID alone begins so; CommandError if there is none."""
    wanted = text.lower()
    # An empty text is a variable that was not set.
    known = status.devices if wanted else ()
    exact = [device for device in known if wanted in (device.index, device.uuid.lower())]
    found = exact or [device for device in known if _begins(device.uuid.lower(), wanted)]
    if len(found) == 1:
        return found[0].uuid
    if found:
        raise CommandError(f"device {text!r} is ambiguous: {_listed(found)}; give more of the UUID, or the index")
    raise CommandError(f"device {text!r} is unknown; known devices: {_listed(status.devices) or 'none yet'}")


def _begins(uuid: str, wanted: str) -> bool:
    """With or without what stands before every UUID: that alone names nothing."""
    bare = uuid[4:] if uuid.startswith(_PREFIXES) else uuid
    return bare.startswith(wanted) or (len(wanted) > len("gpu-") and uuid.startswith(wanted))


def _listed(devices: Iterable[admin_pb2.Device]) -> str:
    return ", ".join(" ".join(part for part in (device.index, device.uuid) if part) for device in devices)
