"""Whether a program is shared safely, from what was seen of it and what its processes reported. Pure."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from enum import StrEnum

from nvshare import display
from nvshare.ctl.doctor.entry_classes import Treatment, Use
from nvshare.ctl.doctor.findings import Finding, Level
from nvshare.ctl.doctor.observation import Seen
from nvshare.protocol.report import Device, Kind, Report, Tie

_SECOND_DRIVER, _NOT_REDIRECTED, _PEER_ACCESS, _NO_IPC, _IPC = range(5)
"""Numbers of ``enum nvs_notice``."""


class Shared(StrEnum):
    """The verdict."""

    YES = "yes"
    NO = "no"
    UNCERTAIN = "uncertain"
    UNUSED = "unused"
    """It used no GPU."""


@dataclass(frozen=True, slots=True)
class Member:
    """A process of the program."""

    seen: Seen | None
    """None: it was too short to be seen from outside."""
    reports: tuple[Report, ...]
    uses: tuple[Use, ...]
    """Of all its reports."""

    @property
    def pid(self) -> int:
        """As doctor sees it, else as the process does."""
        return self.seen.pid if self.seen is not None else self.reports[0].pid

    @property
    def command(self) -> str:
        """Its command line."""
        return self.seen.command if self.seen is not None else self.reports[0].command

    @property
    def devices(self) -> tuple[Device, ...]:
        """What it used by way of the library."""
        return tuple(device for report in self.reports for device in report.devices)

    @property
    def uses_gpu(self) -> bool:
        """It did more than to ask what there is."""
        seen = self.seen
        if self.devices or seen is None:
            return bool(self.devices)
        return seen.context or seen.drivers > 1 or (seen.drivers > 0 and not seen.preloaded)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What doctor says of a program."""

    shared: Shared
    findings: tuple[Finding, ...]


def members(seen: Sequence[Seen], reports: Sequence[tuple[Report, tuple[Use, ...]]]) -> tuple[Member, ...]:
    """Reports, the older first, and what was seen, brought together by pid and program."""
    owned: dict[int, list[tuple[Report, tuple[Use, ...]]]] = {}
    unseen: dict[int, list[tuple[Report, tuple[Use, ...]]]] = {}
    for said in reversed(reports):
        owner = _owner(said[0], seen, owned)
        own = unseen.setdefault(said[0].pid, []) if owner is None else owned.setdefault(owner, [])
        own.insert(0, said)
    found = [_member(process, owned.get(number, [])) for number, process in enumerate(seen)]
    return (*found, *(_member(None, said) for _pid, said in sorted(unseen.items())))


def _owner(report: Report, seen: Sequence[Seen], owned: Container[int]) -> int | None:
    """Which of the programs that a process executed has reported this; None: it was not seen."""
    candidates = [
        (process.command.startswith(report.command), process.drivers > 0, number not in owned, number)
        for number, process in enumerate(seen)
        if process.pid == report.pid and (process.preloaded or process.drivers)
    ]
    return max(candidates)[-1] if candidates else None


def _member(seen: Seen | None, said: list[tuple[Report, tuple[Use, ...]]]) -> Member:
    uses = {use.name: use for _report, own in said for use in own}
    return Member(seen, tuple(report for report, _uses in said), tuple(uses.values()))


def judge(found: Sequence[Member]) -> Verdict:
    """The verdict, with every finding that led to it and those that lead to none."""
    findings = [finding for member in found for finding in _findings(member)]
    levels = {finding.level for finding in findings}
    if Level.PROBLEM in levels:
        return Verdict(Shared.NO, tuple(findings))
    if any(finding.subject == _UNCERTAIN for finding in findings):
        return Verdict(Shared.UNCERTAIN, tuple(findings))
    if not any(member.uses_gpu for member in found):
        return Verdict(Shared.UNUSED, (*findings, Finding(Level.NOTE, "GPU", "no process of it used a GPU")))
    return Verdict(Shared.YES, tuple(findings))


_UNCERTAIN = "not certain"


def _findings(member: Member) -> list[Finding]:
    """Each begins with the process."""
    found = [*_escapes(member), *_of_the_file(member)]
    if not found:
        found += [*_functions(member), *_past_the_hooks(member)]
    found += [*_notices(member), *(finding for device in member.devices for finding in _device(device))]
    name = f"pid {member.pid}"
    return [Finding(one.level, one.subject, f"{name}: {one.what}", one.advice) for one in found]


def _escapes(member: Member) -> list[Finding]:
    """It had a driver, and the library was not with it."""
    seen = member.seen
    if seen is None or not seen.uses_gpu or seen.preloaded or seen.hidden:
        return []
    return [Finding(Level.PROBLEM, "escaped", f"uses a GPU without nvshare's library: {why_not(seen)}", _remedy(seen))]


def why_not(seen: Seen) -> str:
    """Why the library is not in a process's memory."""
    if seen.elf is not None and seen.elf.is_static:
        return "it is statically linked, so nothing can be preloaded"
    if seen.elf is not None and seen.elf.is_musl:
        return "it is linked with musl"
    if seen.privileged:
        return "it has other rights than its user (setuid or setgid), so LD_PRELOAD does not count"
    if seen.told_to is False:
        return "LD_PRELOAD was taken out of its environment (env -i, sudo, or its parent's own environment)"
    return "it was not loaded, though LD_PRELOAD names it"


def _remedy(seen: Seen) -> str:
    if seen.elf is not None and seen.elf.is_static:
        return "link it dynamically against glibc"
    if seen.elf is not None and seen.elf.is_musl:
        return "build it against glibc"
    if seen.privileged:
        return "start it without setuid, or as that user"
    return "keep LD_PRELOAD and NVSHARE_RUN_DIR in the environment of what it starts"


def _of_the_file(member: Member) -> list[Finding]:
    """What its file says, where no GPU was seen in use: it would not be shared if it used one."""
    seen = member.seen
    if seen is None or seen.elf is None or member.uses_gpu or member.reports:
        return []
    if not (seen.elf.is_static or seen.elf.is_musl):
        return []
    return [Finding(Level.NOTE, "not preloaded", f"{why_not(seen)}; it used no GPU")]


def _functions(member: Member) -> list[Finding]:
    escaped = [use for use in member.uses if use.treatment is Treatment.ESCAPED]
    unknown = [use for use in member.uses if use.treatment is Treatment.UNKNOWN]
    found = [
        Finding(Level.PROBLEM, "not gated", f"{use.name}: {use.reason}", "tell nvshare's authors how it is loaded")
        for use in escaped
    ]
    if unknown:
        names = ", ".join(use.name for use in unknown)
        what = f"found functions that this version does not know: {names}"
        found.append(Finding(Level.NOTE, _UNCERTAIN, what, "update nvshare"))
    return found


def _past_the_hooks(member: Member) -> list[Finding]:
    """The driver is at work, and the library has seen nothing that led there."""
    seen, used = member.seen, bool(member.devices)
    if seen is None or used:
        return []
    if seen.context:
        what = "has a context on a GPU of which the library knows nothing: the driver was reached by a way of its own"
        return [Finding(Level.PROBLEM, "escaped", what, "look its functions up by dlsym or cuGetProcAddress")]
    if seen.opened and seen.drivers and not seen.forked and not member.uses:
        what = "the driver has a device open, and none of its functions was looked up or linked: a way of its own"
        return [Finding(Level.PROBLEM, "escaped", what, "look its functions up by dlsym or cuGetProcAddress")]
    if seen.hidden:
        return [Finding(Level.NOTE, _UNCERTAIN, "what it has in memory can't be read", "run doctor as that user")]
    return []


def _notices(member: Member) -> list[Finding]:
    said = {number for report in member.reports for number in report.notices}
    found = []
    if _SECOND_DRIVER in said or (member.seen is not None and member.seen.drivers > 1):
        what = "a second libcuda was loaded by dlmopen; what uses it runs without turns"
        found.append(Finding(Level.PROBLEM, "dlmopen", what, "open it with dlopen"))
    if _NOT_REDIRECTED in said:
        what = "what is opened with RTLD_DEEPBIND may run without turns: its memory can't be written here"
        found.append(Finding(Level.PROBLEM, "RTLD_DEEPBIND", what, "allow writing to /proc/self/mem"))
    elif any(report.deep for report in member.reports):
        found.append(Finding(Level.OK, "RTLD_DEEPBIND", "is used; the driver's symbol tables lead to the hooks"))
    if _PEER_ACCESS in said:
        found.append(_peer_access(member))
    if _NO_IPC in said:
        what = "other processes can't open memory that swaps (CUDA IPC)"
        found.append(Finding(Level.NOTE, "CUDA IPC", what, "NVSHARE_MEMORY=native allows it"))
    if _IPC in said:
        what = "memory given to other processes (CUDA IPC) stays on the GPU; only nvshare's can open it"
        found.append(Finding(Level.NOTE, "CUDA IPC", what))
    return found


def _peer_access(member: Member) -> Finding:
    """Of a gang's members, and of GPUs that are tied, what a kernel reaches is held by the gang at the same time."""
    worked = [device for device in member.devices if device.turns]
    if worked and all(device.in_gang or device.ties for device in worked):
        return Finding(Level.NOTE, "peer access", "peer access is on: GPUs that reach each other are held together")
    what = "peer access is on: kernels of one GPU may use another GPU without its lock"
    return Finding(Level.PROBLEM, "peer access", what, "NVSHARE_MEMORY=swap ties the GPUs together")


def _device(device: Device) -> list[Finding]:
    found = []
    if device.unlocked:
        what = f"{device.uuid}: ran without turns, because there was no scheduler (NVSHARE_ON_MISSING=run)"
        found.append(Finding(Level.PROBLEM, "no scheduler", what, "start a scheduler"))
    if device.refused:
        what = f"{device.uuid}: a scheduler refused the process; see its log"
        found.append(Finding(Level.PROBLEM, "refused", what, "nvshare-ctl status; the scheduler's log says why"))
    elif not device.registered:
        what = f"{device.uuid}: no scheduler took the process, so its work waits"
        found.append(Finding(Level.NOTE, "no scheduler", what, "start a scheduler"))
    elif not device.turns:
        found.append(Finding(Level.NOTE, "no work", f"{device.uuid}: submitted nothing that passes the gate"))
    if device.fixed_bytes:
        what = f"{device.uuid}: {display.size(device.fixed_bytes)} can't be swapped: {reasons(device)}"
        found.append(Finding(Level.NOTE, "memory", what))
    if device.in_gang or device.ties:
        found.append(Finding(Level.NOTE, "gang", f"{device.uuid}: {ties(device)}"))
    return found


_WHY_FIXED = {
    Kind.ARRAYS: "arrays",
    Kind.POOLS: "memory pools",
    Kind.GRAPHS: "graphs' memory nodes",
    Kind.HANDLES: "memory of cuMemCreate that can't be moved",
    Kind.SHARED: "memory that others may use",
    Kind.OTHER: "plain memory",
}


def reasons(device: Device) -> str:
    """What of a device's memory can't be moved."""
    why = _WHY_FIXED | ({Kind.OTHER: "paged by the driver"} if device.backend == "managed" else {})
    parts = [f"{why[kind]} {display.size(count)}" for kind, count in device.fixed_by.items()]
    return ", ".join(parts) or "not known why"


def ties(device: Device) -> str:
    """What makes it wait for others."""
    why = [
        text
        for tie, text in (
            (Tie.NAME, "NVSHARE_GANG names it"),
            (Tie.COLLECTIVE, "a communicator of NCCL's"),
            (Tie.MEMORY, "memory or events that processes or GPUs share"),
        )
        if tie in device.ties
    ]
    state = "in a gang" if device.in_gang else "tied to others, alone so far"
    return f"{state}: {' and '.join(why) or 'by others'}"
