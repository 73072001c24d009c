"""What the package does for the process that imports it: ``nvshare.limit`` and ``nvshare.status``."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from nvshare import paths, terms_texts
from nvshare.api_errors import NotLoadedError, SchedulerError, TooLateError


def limit(*, memory: str | int | None, weight: float | None, priority: str | None, name: str | None) -> None:
    """See ``nvshare.limit``."""
    fields: dict[str, Any] = {}
    variables: dict[str, str] = {}
    if memory is not None:
        fields["memory_limit_bytes"] = terms_texts.memory_of(str(memory))
        variables[paths.MEMORY_LIMIT] = str(fields["memory_limit_bytes"])
    if weight is not None:
        try:
            text = f"{float(weight):.3f}"
        except (TypeError, ValueError):
            text = str(weight)
        fields["weight"] = terms_texts.weight_of(text)
        variables[paths.WEIGHT] = text
    if priority is not None:
        fields["priority"] = variables[paths.PRIORITY] = terms_texts.priority_of(priority)
    if name is not None:
        variables[paths.CONTAINER] = terms_texts.container_of(name)
    if not _has_used_a_gpu():
        os.environ.update(variables)
        # Another thread may have begun to use one meanwhile.
        if not _has_used_a_gpu():
            return
    if name is not None:
        raise TooLateError(
            f"this process has used a GPU already, so it can't be called {name!r} any more: call limit(name=...) "
            f"before the first CUDA call (in a notebook, restart the kernel), or start it by nvshare-ctl run --name"
        )
    if fields:
        _tell_scheduler(fields)


def _has_used_a_gpu() -> bool:
    """Whether the library has read what the environment says; NotLoadedError: it is not here."""
    try:
        are_read = ctypes.CDLL(None).nvs_terms_are_read
    except AttributeError:
        raise NotLoadedError(
            "nvshare's library is not loaded in this process, or is of a version before 0.3: start it by "
            "'nvshare-ctl run -- COMMAND', or a notebook's kernel by what 'nvshare-ctl jupyter install' writes"
        ) from None
    return bool(are_read())


def _tell_scheduler(fields: dict[str, Any]) -> None:
    # gRPC takes a fifth of a second to load, which a program that calls limit() in time need not wait for.
    from nvshare.admin import admin_pb2
    from nvshare.ctl.asking.admin_client import RPC_TIMEOUT, admin
    from nvshare.ctl.errors import CommandError

    try:
        with admin(paths.run_dirs(os.environ)) as scheduler:
            found = scheduler.GetStatus(admin_pb2.GetStatusRequest(), timeout=RPC_TIMEOUT)
            own = [client for device in found.devices for client in device.clients if client.pid == os.getpid()]
            containers = {client.member_of for client in own if client.member_of}
            if not containers:
                raise CommandError("it does not show this process among its clients")
            for container in containers:
                request = admin_pb2.SetTermsRequest(container=container, **fields)
                scheduler.SetTerms(request, timeout=RPC_TIMEOUT)
    except CommandError as failure:
        raise TooLateError(
            f"this process has used a GPU already, and its scheduler can't be told: {failure}; call limit() before the "
            f"first CUDA call (in a notebook, restart the kernel), or ask who runs the scheduler for 'nvshare-ctl set'"
        ) from failure


def status() -> dict[str, Any]:
    """See ``nvshare.status``."""
    from nvshare.admin import admin_pb2
    from nvshare.ctl.asking.admin_client import RPC_TIMEOUT, admin
    from nvshare.ctl.errors import CommandError
    from nvshare.ctl.showing.status_document import from_status

    try:
        with admin(paths.run_dirs(os.environ), only_to_read=True) as scheduler:
            return from_status(scheduler.GetStatus(admin_pb2.GetStatusRequest(), timeout=RPC_TIMEOUT))
    except CommandError as failure:
        raise SchedulerError(str(failure)) from failure
