"""What doctor says, as people read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nvshare import display
from nvshare.ctl.doctor.document import routes
from nvshare.ctl.doctor.entry_classes import Treatment, Use
from nvshare.ctl.doctor.findings import Finding, Level, problems
from nvshare.ctl.doctor.verdict import Member, Shared, Verdict
from nvshare.protocol.report import Device

_STYLES = {Level.OK: "green", Level.NOTE: "yellow", Level.PROBLEM: "bold red"}
_SENTENCES = {
    Shared.YES: ("YES", "green"),
    Shared.NO: ("NO", "bold red"),
    Shared.UNCERTAIN: ("NOT CERTAIN", "yellow"),
    Shared.UNUSED: ("it used no GPU", "yellow"),
}
_NAMES = 4
"""So many functions of a kind are named; JSON names all."""


def of_machine(findings: Sequence[Finding]) -> RenderableType:
    """Of the machine: a line each, and what to do below it."""
    count = problems(findings)
    notes = sum(finding.level is Level.NOTE for finding in findings)
    end = f"{count} problem{'s' if count != 1 else ''}, {notes} note{'s' if notes != 1 else ''}"
    return Group(_table(findings), Text(), Text(end, style=_STYLES[Level.PROBLEM if count else Level.OK]))


def of_program(ending: str, left: int, members: Sequence[Member], verdict: Verdict) -> RenderableType:
    """Of a program that has ended."""
    word, style = _SENTENCES[verdict.shared]
    parts: list[RenderableType] = [Text.assemble("shared safely: ", (word, style), f" ({ending})")]
    if verdict.findings:
        parts.append(Padding(_table(verdict.findings), (0, 0, 0, 2)))
    users = [member for member in members if member.uses_gpu]
    parts += [part for member in users for part in _member(member)]
    others = len({member.pid for member in members} - {member.pid for member in users})
    if users and others:
        parts.append(Text(f"{others} more process{'es' if others != 1 else ''} of it used no GPU", style="dim"))
    if left:
        parts.append(Text(f"{left} process{'es' if left != 1 else ''} of it still run, and are not watched any more"))
    return Group(*parts)


def _table(findings: Sequence[Finding]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        level = Text(finding.level.value, style=_STYLES[finding.level])
        table.add_row(level, Text(finding.subject), Text(finding.what))
        if finding.advice:
            table.add_row("", "", Text(f"→ {finding.advice}", style="dim"))
    return table


def _member(member: Member) -> Iterator[RenderableType]:
    yield Text()
    yield Text(f"pid {member.pid}  {member.command}", style="bold", no_wrap=True, overflow="ellipsis")
    for device in member.devices:
        yield Text(f"  {_device(device)}")
    for treatment in Treatment:
        uses = [use for use in member.uses if use.treatment is treatment]
        if uses:
            yield Text(f"  {_uses(treatment, uses)}")


def _device(device: Device) -> str:
    if not device.registered:
        return f"{device.uuid}: no turn"
    turns = f"{display.count(device.turns, 'turn')}, gave way {display.count(device.given_back, 'time')}"
    swappable, fixed = display.size(device.movable_bytes), display.size(device.fixed_bytes)
    memory = f"{swappable} swappable, {fixed} not" if device.backend == "swap" else f"{fixed}, {device.backend}"
    work = f", at least {device.submissions} submissions" if device.submissions else ""
    return f"{device.uuid}: {turns}{work}; memory: {memory}"


def _uses(treatment: Treatment, uses: Sequence[Use]) -> str:
    names = ", ".join(use.name for use in uses[:_NAMES])
    more = f" and {len(uses) - _NAMES} more" if len(uses) > _NAMES else ""
    ways = sorted({way for use in uses for way in routes(use.routes)})
    how = "looked up" if treatment is Treatment.PASSED else "found"
    return f"{treatment.value}: {len(uses)} {how} ({', '.join(ways)}): {names}{more}"
