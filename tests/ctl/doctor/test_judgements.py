"""Doctor's judgements on what no simulated GPU can do, and on what was seen in part only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nvshare.ctl.doctor import entry_classes
from nvshare.ctl.doctor.elf import Elf
from nvshare.ctl.doctor.entry_classes import Treatment
from nvshare.ctl.doctor.observation import Seen, with_environment, with_maps
from nvshare.ctl.doctor.verdict import Member, Shared, judge, members
from nvshare.cuda import entrypoints
from nvshare.protocol.report import Device, Kind, Name, Report, Route, Tie

ENTRIES = entry_classes.by_name(entrypoints.parse(entrypoints.LIST.read_text()))
GLIBC = Elf("x86_64", "/lib64/ld-linux-x86-64.so.2", ("libc.so.6",))
MUSL = Elf("x86_64", "/lib/ld-musl-x86_64.so.1", ("libc.musl-x86_64.so.1",))
STATIC = Elf("x86_64", "", ())
SEEN = Seen(7, 1, command="program", executable="/program", elf=GLIBC, preloaded=True, told_to=True)
DEVICE = Device(
    0, "GPU-1", "swap", True, False, False, False, Tie(0), 3, 2, 3, 100, movable_bytes=64, fixed_bytes=0, fixed_by={}
)
REPORT = Report(7, "program", frozenset(), False, 0, (DEVICE,), ())
NOBODY = Route(0)


def used(*names: Name, report: Report = REPORT, seen: Seen = SEEN) -> Member:
    """A process with these functions."""
    return Member(seen, (report,), tuple(entry_classes.use_of(name, ENTRIES) for name in names))


def found(member: Member) -> tuple[Shared, str]:
    """The verdict and all that was found."""
    verdict = judge([member])
    return verdict.shared, " | ".join(finding.what for finding in verdict.findings)


def test_shared() -> None:
    """A process whose submissions are gated is shared, and nothing is said of it."""
    assert found(used(Name("cuLaunchKernel", Route.DLSYM, NOBODY))) == (Shared.YES, "")


@pytest.mark.parametrize(
    ("name", "treatment"),
    [
        (Name("cuLaunchKernel", Route.DLSYM, NOBODY), Treatment.GATED),
        (Name("cuMemcpyHtoD_v2", Route.LINKED, NOBODY), Treatment.GATED),
        (Name("cuMemAlloc_v2", Route.PROC_ADDRESS, NOBODY), Treatment.COUNTED),
        (Name("cuCtxSetCurrent", Route.DLSYM, NOBODY), Treatment.FOLLOWED),
        (Name("cuInit", NOBODY, Route.DLSYM), Treatment.PASSED),
        (Name("cuMemGetAddressRange", NOBODY, Route.PROC_ADDRESS), Treatment.PASSED),
        (Name("cuLaunchKernel", NOBODY, Route.LINKED), Treatment.ESCAPED),
        (Name("cuMemcpyHtoD_v2", Route.DLSYM, Route.DLSYM), Treatment.ESCAPED),
        (Name("cuLaunchKernel", NOBODY, Route.PROC_ADDRESS), Treatment.UNKNOWN),
        (Name("cuOfTomorrow", NOBODY, Route.DLSYM), Treatment.UNKNOWN),
        (Name("a094798c2e742e7493f20800200c0a66", NOBODY, Route.TABLE), Treatment.PASSED),
        (Name("00000000000000000000000000000000 libcublas.so.12", NOBODY, Route.TABLE), Treatment.PASSED),
        (Name("00000000000000000000000000000000", NOBODY, Route.TABLE), Treatment.ESCAPED),
        (Name("00000000000000000000000000000000 libother.so", NOBODY, Route.TABLE), Treatment.ESCAPED),
    ],
)
def test_treatments(name: Name, treatment: Treatment) -> None:
    """What becomes of calls, by the function's class and by what the program found."""
    assert entry_classes.use_of(name, ENTRIES).treatment is treatment


def test_every_class_has_its_reason() -> None:
    """Whatever the library passes on is passed for a reason that is said."""
    for names in ENTRIES.values():
        for entry in names:
            use = entry_classes.use_of(Name(entry.symbol, NOBODY, Route.DLSYM), ENTRIES)
            assert use.treatment is Treatment.ESCAPED or use.reason, entry.symbol


def test_the_drivers_own_function() -> None:
    """A program that calls the driver's own launch is not shared."""
    assert found(used(Name("cuLaunchKernel", NOBODY, Route.LINKED)))[0] is Shared.NO


def test_functions_of_tomorrow() -> None:
    """What only a newer driver has makes it uncertain."""
    shared, what = found(used(Name("cuOfTomorrow", NOBODY, Route.DLSYM)))
    assert shared is Shared.UNCERTAIN
    assert "cuOfTomorrow" in what


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (replace(SEEN, elf=STATIC), "statically linked"),
        (replace(SEEN, elf=MUSL), "linked with musl"),
        (replace(SEEN, privileged=True), "setuid"),
        (replace(SEEN, told_to=False), "env -i"),
        (SEEN, "it was not loaded, though LD_PRELOAD names it"),
    ],
)
def test_escapers(seen: Seen, why: str) -> None:
    """A process that has a driver, and not the library, escapes; what is said first is why nothing could help."""
    shared, what = found(Member(replace(seen, preloaded=False, drivers=1), (), ()))
    assert shared is Shared.NO
    assert why in what


def test_driver_that_was_only_tried() -> None:
    """A program of musl's had the driver in memory for a moment, as it could not load it: it is still named as that."""
    shared, what = found(Member(replace(SEEN, elf=MUSL, drivers=1), (), ()))
    assert shared is Shared.UNUSED
    assert "linked with musl; it used no GPU" in what


def test_context_that_nobody_saw() -> None:
    """NVML shows a context of which the library knows nothing."""
    member = Member(replace(SEEN, drivers=1, context=True), (replace(REPORT, devices=()),), ())
    assert found(member)[0] is Shared.NO


def test_driver_at_work_without_names() -> None:
    """A device is open, and nobody looked anything up. A forked child has that from its parent."""
    seen = replace(SEEN, drivers=1, opened=True)
    assert found(Member(seen, (), ()))[0] is Shared.NO
    assert found(Member(replace(seen, forked=True), (), ()))[0] is Shared.UNUSED


def test_memory_that_could_not_be_read() -> None:
    """Of another user's process nothing is known."""
    assert found(Member(replace(SEEN, preloaded=False, hidden=True), (), ()))[0] is Shared.UNCERTAIN


@pytest.mark.parametrize(
    ("notice", "shared"), [(0, Shared.NO), (1, Shared.NO), (2, Shared.NO), (3, Shared.YES), (4, Shared.YES)]
)
def test_notices(notice: int, shared: Shared) -> None:
    """What the library could not prevent counts, and what it only has to say does not."""
    verdict, what = found(used(report=replace(REPORT, notices=frozenset({notice}))))
    assert verdict is shared
    assert what


def test_peer_access() -> None:
    """In a gang, or between GPUs that are tied, none is reached without its lock; one that is in none is a problem."""
    other = replace(DEVICE, ordinal=1, uuid="GPU-2")
    idle = replace(other, turns=0)
    gang, tied = replace(DEVICE, in_gang=True, ties=Tie.COLLECTIVE), replace(other, ties=Tie.MEMORY)
    for devices, shared in (
        ((gang,), Shared.YES),
        ((gang, idle), Shared.YES),
        ((gang, tied), Shared.YES),
        ((gang, other), Shared.NO),
        ((idle,), Shared.NO),
        ((DEVICE, idle), Shared.NO),
    ):
        verdict, what = found(used(report=replace(REPORT, notices=frozenset({2}), devices=devices)))
        assert verdict is shared, devices
        assert ("held together" in what) is (shared is Shared.YES)


def test_scheduler() -> None:
    """Who ran without one, or was refused by it, is not shared; who waits for one is."""
    for device, shared in (
        (replace(DEVICE, unlocked=True), Shared.NO),
        (replace(DEVICE, refused=True), Shared.NO),
        (replace(DEVICE, registered=False, backend="", turns=0), Shared.YES),
    ):
        assert found(used(report=replace(REPORT, devices=(device,))))[0] is shared


def test_memory_that_stays() -> None:
    """The bytes are told with the reasons."""
    device = replace(DEVICE, fixed_bytes=3 << 20, fixed_by={Kind.ARRAYS: 1 << 20, Kind.POOLS: 2 << 20})
    _shared, what = found(used(report=replace(REPORT, devices=(device,))))
    assert "3 MiB can't be swapped: arrays 1 MiB, memory pools 2 MiB" in what


def test_memory_that_is_paged() -> None:
    """Where the driver pages it, that is said."""
    device = replace(DEVICE, backend="managed", fixed_bytes=1 << 20, fixed_by={Kind.OTHER: 1 << 20})
    _shared, what = found(used(report=replace(REPORT, devices=(device,))))
    assert "paged by the driver 1 MiB" in what


def test_ties() -> None:
    """Whatever ties it is told."""
    device = replace(DEVICE, in_gang=True, ties=Tie.COLLECTIVE | Tie.MEMORY)
    _shared, what = found(used(report=replace(REPORT, devices=(device,))))
    assert "in a gang: a communicator of NCCL's and memory or events that processes or GPUs share" in what


def test_reports_find_their_process() -> None:
    """By the pid; a process that was too short to be seen is known by its report."""
    seen = (Seen(7, 1, preloaded=True), Seen(8, 7, preloaded=True))
    short = replace(REPORT, pid=9)
    assert [(one.pid, len(one.reports)) for one in members(seen, [(REPORT, ()), (short, ())])] == [
        (7, 1),
        (8, 0),
        (9, 1),
    ]


def test_reports_of_programs_that_shared_a_pid() -> None:
    """A process that executes another program has a report of each that used a GPU: by the command, else the latest."""
    first = Seen(7, 1, command="first", preloaded=True, drivers=1)
    second, idle = replace(first, command="second"), replace(first, command="second", drivers=0)
    of_first, of_second = (replace(REPORT, command=name) for name in ("first", "second"))

    def owners(seen: tuple[Seen, ...], *reports: Report) -> list[list[str]]:
        return [[said.command for said in one.reports] for one in members(seen, [(said, ()) for said in reports])]

    assert owners((first, second), of_first, of_second) == [["first"], ["second"]]
    assert owners((first, second), of_second) == [[], ["second"]]
    assert owners((first, second), of_first) == [["first"], []]
    assert owners((first, idle), of_first) == [["first"], []]
    assert owners((first, idle), replace(REPORT, command="of its own name")) == [["of its own name"], []]
    assert owners((first, first), of_first, of_first) == [["first"], ["first"]]
    assert owners((replace(idle, preloaded=False),), of_second) == [[], ["second"]]


MAPS = """\
5581a0000000-5581a0001000 r--p 00000000 08:01 11 /usr/bin/program
7f0000000000-7f0000100000 r--p 00000000 08:01 22 /usr/lib/libcuda.so.580.1
7f0000100000-7f0000200000 r-xp 00100000 08:01 22 /usr/lib/libcuda.so.580.1
7f0000300000-7f0000310000 r-xp 00001000 08:01 33 /opt/nvshare/libnvshare.so
"""


def test_maps() -> None:
    """A driver counts by its code, and what simulated GPUs map is a device that is open."""
    seen = with_maps(Seen(7, 1), MAPS, "")
    assert (seen.drivers, seen.preloaded, seen.opened) == (1, True, False)
    second = "7f1000000000-7f1000100000 r-xp 00000000 08:01 22 /usr/lib/libcuda.so.580.1\n"
    assert with_maps(seen, MAPS + second, "").drivers == 2
    state = "7f2000000000-7f2000100000 rw-s 00000000 08:01 44 /tmp/gpus/state\n"
    assert with_maps(seen, MAPS + state, "/tmp/gpus").opened


def test_environment() -> None:
    """LD_PRELOAD names the library, or another one, or is not there."""
    for text, told in ((b"LD_PRELOAD=/a/libnvshare.so\0", True), (b"A=1\0LD_PRELOAD=/b.so\0", False), (b"", False)):
        assert with_environment(Seen(7, 1), text).told_to is told
