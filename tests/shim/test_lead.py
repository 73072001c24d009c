"""What the leader of a cut orders, against members that are models of programs."""

from __future__ import annotations

import random

import pytest

from tests.c_parts import ffi, lib
from tests.shim.lead_model import (
    IN,
    MICROSECOND,
    MILLISECOND,
    NEXT,
    OUTSIDE,
    RUNS,
    SECOND,
    Gang,
    Member,
    lockstep,
)

SEEDS = range(6)
END, PUT_OFF, FREEZE, ALLOW = lib.NVS_GANG_END, lib.NVS_GANG_PUT_OFF, lib.NVS_GANG_FREEZE, lib.NVS_GANG_ALLOW


def job(seed: int, submitted: list[int], period: int = 5, nanoseconds: int = 100 * MICROSECOND) -> Gang:
    """A gang of one program, whose members have submitted so much, and completed what they could."""
    completed = min(submitted) - min(submitted) % period
    program = lockstep(period, nanoseconds)
    return Gang([Member(program, count, completed) for count in submitted], random.Random(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_those_behind_catch_up_in_one_go(seed: int) -> None:
    """Programs that do the same end where the furthest one was: one command, and no more for each submission."""
    gang = job(seed, [1000, 1060, 1033])
    gang.until_over()
    assert gang.ended()
    assert max(member.submitted for member in gang.members) <= 1060 + 5
    assert gang.orders < 20


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gang_that_is_complete_needs_no_command_but_the_end(seed: int) -> None:
    """Wherever its members are."""
    gang = job(seed, [1000, 1000])
    gang.members[1].submitted = gang.members[1].completed = 1002
    gang.members[0].completed = 1000
    assert gang.until_over() < MILLISECOND
    assert (gang.ended(), gang.orders, [member.taken for member in gang.members]) == (True, 2, [0, 0])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("even", [True, False])
def test_programs_that_do_not_do_the_same(seed: int, even: bool) -> None:
    """One submits much more between two meetings: it ends, and the next cut knows that counts mean nothing."""
    few, many = lockstep(2, 20 * MICROSECOND), lockstep(9, 20 * MICROSECOND)
    gang = Gang([Member(many, 4500, 4500), Member(few, 1030, 1001)], random.Random(seed))
    gang.begin(0, even)
    gang.until_over()
    assert gang.ended()
    assert not gang.lead.even


@pytest.mark.parametrize("seed", SEEDS)
def test_many_steps_need_few_commands(seed: int) -> None:
    """Where counts mean nothing, each step that did not help is followed by a larger one."""
    program = lockstep(400, 10 * MICROSECOND)
    gang = Gang([Member(program, 400, 399), Member(program, 100, 100)], random.Random(seed))
    gang.begin(0, False)
    gang.until_over()
    assert gang.ended()
    assert gang.members[1].taken >= 300
    assert gang.orders < 40


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("nanoseconds", [50 * MICROSECOND, MILLISECOND, 5 * MILLISECOND, 40 * MILLISECOND])
def test_members_do_not_overtake_each_other_for_ever(seed: int, nanoseconds: int) -> None:
    """Kernels that wait for nobody and end at different times: each waits for the other rather than run on."""
    programs = [lambda _number, longer=longer: nanoseconds + longer for longer in (0, nanoseconds // 3)]
    gang = Gang([Member(program, 103 + i, 100) for i, program in enumerate(programs)], random.Random(seed))
    assert gang.until_over() < 12 * nanoseconds + 5 * MILLISECOND
    assert gang.ended()
    assert sum(member.taken for member in gang.members) <= 8


@pytest.mark.parametrize("seed", SEEDS)
def test_a_member_that_submits_nothing_more(seed: int) -> None:
    """One has no thread at its gate and nothing to do: the other's work, which waits for nobody, is waited for."""
    gang = Gang(
        [Member(lambda _: 30 * MILLISECOND, 4, 0), Member(lambda _: 1, 0, 0, threads=False)], random.Random(seed)
    )
    assert 120 * MILLISECOND <= gang.until_over() < 135 * MILLISECOND
    assert gang.ended()
    assert gang.members[0].taken == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_member_whose_thread_comes_late(seed: int) -> None:
    """What it may submit waits for it."""
    gang = job(seed, [1000, 1030])
    gang.members[0].threads = False
    for _ in range(1000):
        gang.tick()
    assert not any(member.outcome for member in gang.members)
    gang.members[0].threads = True
    gang.until_over()
    assert gang.ended()


@pytest.mark.parametrize("seed", SEEDS)
def test_work_that_nobody_in_the_gang_can_end(seed: int) -> None:
    """Ten seconds after the first step all are put off."""
    gang = Gang([Member(lambda _: OUTSIDE, 1, 0), Member(lambda _: MICROSECOND, 5, 5)], random.Random(seed))
    gang.pace = 2 * MILLISECOND
    took = gang.until_over(20 * SECOND)
    assert 10 * SECOND < took < 10.1 * SECOND
    assert [member.outcome for member in gang.members] == [PUT_OFF, PUT_OFF]


@pytest.mark.parametrize("seed", SEEDS)
def test_members_that_wait_for_themselves(seed: int) -> None:
    """Nobody completes, since each waits for what it submits next itself: everybody steps."""
    programs = [lambda number, waits=waits: NEXT if number % waits == 1 else 1000 for waits in (5, 7)]
    gang = Gang([Member(program, 2, 1) for program in programs], random.Random(seed))
    assert gang.until_over() < 100 * MILLISECOND
    assert gang.ended()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_member_that_never_comes(seed: int) -> None:
    """It runs, and takes no part: those that do are put off after ten seconds."""
    gang = job(seed, [1000, 1000, 1000])
    gang.members[2].flags, gang.members[2].outcome = RUNS, PUT_OFF
    gang.say(2)
    gang.pace = 2 * MILLISECOND
    assert 10 * SECOND < gang.until_over(20 * SECOND) < 10.1 * SECOND
    assert gang.members[0].outcome == gang.members[1].outcome == PUT_OFF


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("how", ["absent", "holds no lock"])
def test_a_member_that_need_not_come(seed: int, how: str) -> None:
    """One that is gone, or holds no lock, is not waited for."""
    gang = job(seed, [1000, 1000, 1000])
    for member in gang.members:
        member.completed = 1000
    gang.members[2].alive = False
    if how == "absent":
        gang.absent = 4
    gang.members[2].flags = RUNS if how == "absent" else 0
    gang.statuses[2].flags = gang.members[2].flags
    assert gang.until_over() < MILLISECOND
    assert gang.ended()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("how", ["silent", "deaf", "left", "stuck"])
def test_a_member_that_does_not_go_on(seed: int, how: str) -> None:
    """It says nothing more, does not follow, has left, or can't end: all are put off, at the latest in ten seconds."""
    gang = job(seed, [1000, 1030, 1030])
    for _ in range(20):
        gang.tick()
    odd = gang.members[1]
    match how:
        case "silent":
            odd.alive = False
        case "deaf":
            odd.follows = False
            odd.revision = 12345
            for _ in range(2):
                gang.say(1)
        case "left":
            odd.flags, odd.outcome = RUNS, PUT_OFF
            gang.say(1)
        case _:
            odd.flags |= lib.NVS_GANG_STUCK
    start, gang.pace = gang.now, 2 * MILLISECOND
    while not (gang.members[0].outcome and gang.members[2].outcome):
        assert gang.now - start < 10.2 * SECOND
        gang.tick()
    assert gang.members[0].outcome == gang.members[2].outcome == PUT_OFF
    assert (gang.now - start < SECOND) is (how in ("left", "stuck"))


@pytest.mark.parametrize("seed", range(60))
def test_another_leader_at_any_moment(seed: int) -> None:
    """The leader is gone at some moment, with its client: the next one stops all first, and brings it to an end.

    Kernels that wait for the dead one end in the model, as those of a program do that notices.
    """
    chance = random.Random(seed)
    gang = job(seed, [1000 + chance.randrange(40) for _ in range(3)])
    for _ in range(chance.randrange(200)):
        gang.tick()
    if all(member.outcome for member in gang.members):
        return
    dead = gang.members[0]
    dead.alive, gang.absent = False, 1
    dead.submitted = 10_000
    gang.begin(1)
    gang.look()
    for slot in (1, 2):
        if not gang.members[slot].outcome and gang.statuses[slot].revision:
            assert gang.commands[slot].order in (FREEZE, PUT_OFF)
            assert gang.commands[slot].version % lib.NVS_GANG_SLOTS == 1, "no other leader makes the same"
    gang.until_over()
    # Who had heard of the end before has given its lock back, and is waited for by nobody.
    assert gang.ended()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_silent_member_that_owes_no_answer(seed: int) -> None:
    """One is gone that was told to catch up and has said so, and no thread of the others could take a step."""
    gang = job(seed, [1000, 1030])
    for member in gang.members:
        member.threads = False
    gang.leader, gang.absent = 1, 0
    gang.begin(1)
    while gang.statuses[0].left == 0 or gang.members[1].met < 200:
        gang.tick()
    gang.members[0].alive = False
    gang.pace = 2 * MILLISECOND
    assert gang.until_over(20 * SECOND) < 10.2 * SECOND
    assert gang.members[1].outcome == PUT_OFF


@pytest.mark.parametrize("seed", SEEDS)
def test_catching_up_ends_when_nobody_needs_it(seed: int) -> None:
    """Those for whom the others catch up have completed by themselves: what is still allowed is taken back."""
    ahead, behind = (lambda _: 2 * MILLISECOND), (lambda _: 50 * MICROSECOND)
    gang = Gang([Member(ahead, 1003, 1000), Member(behind, 4, 3)], random.Random(seed))
    gang.until_over()
    assert gang.ended()
    assert 10 < gang.members[1].taken < 400


@pytest.mark.parametrize("seed", SEEDS)
def test_the_end_is_not_told_to_who_may_still_step(seed: int) -> None:
    """When all have completed, and one could let something pass, that one is stopped first."""
    gang = job(seed, [1000, 1030])
    gang.members[0].threads = False
    while not gang.members[0].allowed:
        gang.tick()
    gang.members[1].completed = 1030
    gang.members[1].met = gang.members[0].met = 206
    orders = []
    while not gang.members[0].outcome:
        gang.tick()
        orders.append(gang.commands[0].order)
    assert FREEZE in orders
    assert gang.members[0].submitted == 1000


@pytest.mark.parametrize("seed", range(40))
def test_whatever_the_page_says(seed: int) -> None:
    """Orders go to members that take part, each with a version of its own, and time goes on."""
    chance = random.Random(seed)
    lead, out = ffi.new("struct nvs_lead *"), ffi.new("struct nvs_lead_orders *")
    statuses = ffi.new(f"struct nvs_gang_status[{lib.NVS_GANG_SLOTS}]")
    lib.nvs_lead_begin(lead, chance.randrange(64), chance.choice([0, 2**64 - 1, chance.randrange(2**64)]), True, 0)
    extremes = [0, 1, 2**63, 2**64 - 1]
    now, versions = 0, set()
    for _ in range(300):
        now += chance.choice([0, MICROSECOND, MILLISECOND, 20 * MILLISECOND, SECOND])
        for status in statuses:
            for name in ("version", "flags", "entry", "revision", "taken", "left", "count"):
                if chance.random() < 0.3:
                    setattr(status, name, chance.choice([*extremes, chance.randrange(64), chance.randrange(2**64)]))
            if chance.random() < 0.8:
                status.flags = IN | RUNS | chance.choice([0, lib.NVS_GANG_COMPLETE])
        for slot in range(64):
            if chance.random() < 0.95:
                statuses[slot].revision = lead.members[slot].revision
                statuses[slot].entry = lead.members[slot].entry or 1
        present = chance.randrange(2**64)
        lib.nvs_lead_look(lead, statuses, present, now, out)
        for slot in range(64):
            if out.to >> slot & 1:
                assert present >> slot & 1
                assert statuses[slot].flags & IN
                assert out.orders[slot].entry == statuses[slot].entry
                assert out.orders[slot].order in (ALLOW, FREEZE, END, PUT_OFF)
                assert out.orders[slot].version not in versions
                versions.add(out.orders[slot].version)
