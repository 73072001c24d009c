"""What doctor says as plain data for scripts. Units are in the names. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nvshare.ctl.doctor.entry_classes import Use
from nvshare.ctl.doctor.findings import Finding, problems
from nvshare.ctl.doctor.verdict import Member, Verdict
from nvshare.protocol.report import Device, Route, Tie

Document = dict[str, Any]


def of_machine(findings: Sequence[Finding]) -> Document:
    """Of the machine."""
    return {"problems": problems(findings), "findings": _findings(findings)}


def of_program(
    command: Sequence[str], status: int, signal: int, left: int, members: Sequence[Member], verdict: Verdict
) -> Document:
    """Of a program that has ended."""
    return {
        "shared_safely": verdict.shared.value,
        "command": list(command),
        "exit_code": status,
        "signal": signal or None,
        "processes_left": left,
        "findings": _findings(verdict.findings),
        "processes": [_of_member(member) for member in members],
    }


def _findings(findings: Iterable[Finding]) -> list[Document]:
    return [
        {"level": one.level.value, "subject": one.subject, "what": one.what, "advice": one.advice or None}
        for one in findings
    ]


def _of_member(member: Member) -> Document:
    seen = member.seen
    elf = seen.elf if seen is not None else None
    return {
        "pid": member.pid,
        "command": member.command,
        "uses_gpu": member.uses_gpu,
        "preloaded": bool(member.reports) or (seen is not None and seen.preloaded),
        "static": elf.is_static if elf is not None else None,
        "musl": elf.is_musl if elf is not None else None,
        "deepbind": any(report.deep for report in member.reports),
        "devices": [_of_device(device) for device in member.devices],
        "functions": [_of_use(use) for use in member.uses],
        "functions_lost": sum(report.lost for report in member.reports),
    }


def _of_device(device: Device) -> Document:
    return {
        "uuid": device.uuid,
        "backend": device.backend or None,
        "registered": device.registered,
        "turns": device.turns,
        "given_back": device.given_back,
        "waits": device.waits,
        "submissions_at_least": device.submissions,
        "swappable_bytes": device.movable_bytes,
        "not_swappable_bytes": device.fixed_bytes,
        "not_swappable": {f"{kind.name.lower()}_bytes": count for kind, count in device.fixed_by.items()},
        "in_gang": device.in_gang,
        "ties": [tie.name.lower() for tie in Tie if tie in device.ties and tie.name],
    }


def _of_use(use: Use) -> Document:
    return {
        "name": use.name,
        "class": use.kind or None,
        "routes": routes(use.routes),
        "treatment": use.treatment.value,
        "reason": use.reason or None,
    }


def routes(of: Route) -> list[str]:
    """The names of routes."""
    return [_ROUTES[route] for route in Route if route in of]


_ROUTES = {
    Route.LINKED: "linked",
    Route.DLSYM: "dlsym",
    Route.PROC_ADDRESS: "cuGetProcAddress",
    Route.TABLE: "export table",
}
