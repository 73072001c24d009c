"""Kills and stops at random: what is done to a node, a few times a second."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping

from nvshare.admin import admin_pb2
from tests.chaos import floods, gang_deeds, sleep_deeds
from tests.chaos.chaos import QUANTUM_SECONDS, Chaos
from tests.chaos.programs import Program

REQUEST_BYTES = 16 << 20
"""Of all programs together it leaves room for the largest of them."""


def _one_in(chaos: Chaos, *states: str) -> Program:
    return chaos.one_of(lambda client: client.state in states)


def _kill_and_replace(chaos: Chaos, place: Program) -> None:
    place.kill()
    place.start(chaos.random.getrandbits(32))


def kill_holder(chaos: Chaos) -> None:
    """Kills a program that holds a lock."""
    _kill_and_replace(chaos, _one_in(chaos, "holding"))


def kill_waiter(chaos: Chaos) -> None:
    """Kills a program that waits."""
    _kill_and_replace(chaos, _one_in(chaos, "waiting"))


def kill_draining(chaos: Chaos) -> None:
    """Kills a program that was asked to leave."""
    _kill_and_replace(chaos, _one_in(chaos, "leaving", "unresponsive"))


def kill_coming(chaos: Chaos) -> None:
    """Kills a program whose memory is coming back."""
    _kill_and_replace(chaos, chaos.one_of(lambda client: client.swap.coming_bytes > 0))


def kill_leaving(chaos: Chaos) -> None:
    """Kills a program whose memory is leaving the device."""
    _kill_and_replace(chaos, chaos.one_of(lambda client: client.swap.leaving_bytes > 0))


def stop_moving(chaos: Chaos) -> None:
    """Stops a program whose memory is on its way, in the middle of that."""
    if sum(place.stopped for place in chaos.programs) < 3:
        chaos.one_of(lambda client: client.swap.coming_bytes + client.swap.leaving_bytes > 0).stop()


def kill_scheduler(chaos: Chaos) -> None:
    """Kills the scheduler, and starts the next one at once or after a while."""
    chaos.scheduler.kill()
    chaos.scheduler.wait()
    time.sleep(chaos.random.choice((0.0, 0.0, 0.5, 1.5)))
    chaos.start_scheduler()


def restart_scheduler(chaos: Chaos) -> None:
    """Ends the scheduler as an operator does, and starts the next one."""
    chaos.scheduler.terminate()
    chaos.scheduler.wait()
    chaos.start_scheduler()


def kill_both(chaos: Chaos) -> None:
    """Kills a holder while there is no scheduler to see it."""
    place = _one_in(chaos, "holding", "leaving")
    chaos.scheduler.kill()
    chaos.scheduler.wait()
    place.kill()
    place.start(chaos.random.getrandbits(32))
    chaos.start_scheduler()


def stop_scheduler(chaos: Chaos) -> None:
    """Stops the scheduler for a moment, or for longer than anybody's patience in it is."""
    chaos.scheduler.send_signal(signal.SIGSTOP)
    time.sleep(chaos.random.choice((chaos.random.uniform(0.05, 0.8), 6.0)))
    chaos.scheduler.send_signal(signal.SIGCONT)


def stop_program(chaos: Chaos) -> None:
    """Stops a program; a later deed lets it go on."""
    if sum(place.stopped for place in chaos.programs) < 3:
        _one_in(chaos, "holding", "waiting", "leaving").stop()


def resume_program(chaos: Chaos) -> None:
    """Lets a stopped program go on."""
    stopped = [place for place in chaos.programs if place.stopped]
    if stopped:
        chaos.random.choice(stopped).resume()


def change_settings(chaos: Chaos) -> None:
    """Sets the quantum, as an operator may at any time, and the policy where nobody looks for overlaps."""
    seconds = chaos.random.choice((0.05, QUANTUM_SECONDS, 0.5))
    policy = chaos.random.choice(("auto", "exclusive", "off")) if chaos.policy == "auto" else chaos.policy
    device = chaos.random.choice(["", *(device.uuid for device in chaos.devices())])
    with chaos.operator() as admin:
        admin.SetQuantum(admin_pb2.SetQuantumRequest(seconds=seconds, device_uuid=device), timeout=1)
        admin.SetPolicy(admin_pb2.SetPolicyRequest(policy=policy, device_uuid=device), timeout=1)


def change_terms(chaos: Chaos) -> None:
    """Sets what one of the programs may have, or takes it back."""
    container = chaos.random.choice(["", *sorted(chaos.containers())])
    chosen = admin_pb2.SetTermsRequest(
        container=container,
        weight=chaos.random.choice((0.5, 1.0, 4.0)),
        priority=chaos.random.choice(("low", "normal", "high")),
        compute_limit=chaos.random.choice((0.3, 1.0)),
        memory_request_bytes=chaos.random.choice((0, REQUEST_BYTES)),
        sleep=chaos.random.choice(("never", "pressure", "idle")),
    )
    if container and chaos.random.random() < 0.3:
        chaos.take_back_terms(container)
    elif container:
        with chaos.operator() as admin:
            admin.SetTerms(chosen, timeout=1)


DEEDS: Mapping[Callable[[Chaos], None], int] = {
    kill_holder: 6,
    kill_waiter: 4,
    kill_draining: 6,
    kill_coming: 4,
    kill_leaving: 4,
    kill_scheduler: 4,
    restart_scheduler: 1,
    kill_both: 2,
    stop_scheduler: 3,
    stop_program: 3,
    stop_moving: 2,
    resume_program: 8,
    change_settings: 2,
    change_terms: 4,
    floods.flood_with_garbage: 2,
    floods.flood_with_footprints: 2,
    floods.flood_with_memory: 2,
    floods.claim_to_hold: 3,
    floods.claim_arenas: 2,
    gang_deeds.kill_rank: 3,
    gang_deeds.kill_stopped_rank: 2,
    gang_deeds.stop_rank: 2,
    gang_deeds.resume_ranks: 6,
    gang_deeds.kill_scheduler_in_cut: 2,
    sleep_deeds.put_to_sleep: 6,
    sleep_deeds.wake_up: 2,
    sleep_deeds.kill_sleeper: 3,
    sleep_deeds.stop_sleeper: 2,
    sleep_deeds.kill_scheduler_in_sleep: 2,
}
"""How often each is done beside the others."""


def do_something(chaos: Chaos) -> None:
    """One deed."""
    deed = chaos.random.choices(list(DEEDS), list(DEEDS.values()))[0]
    chaos.done[deed.__name__] = chaos.done.get(deed.__name__, 0) + 1
    deed(chaos)


def rage(chaos: Chaos, seconds: float, report: Callable[[str], None]) -> None:
    """Does something a few times a second for so long, and looks again and again whether all is well."""
    end = time.monotonic() + seconds
    next_check = time.monotonic() + 10
    while time.monotonic() < end:
        do_something(chaos)
        time.sleep(chaos.random.expovariate(8))
        if time.monotonic() > next_check:
            chaos.check()
            rounds = sum(place.rounds for place in chaos.programs)
            report(f"{end - time.monotonic():.0f} s left, {rounds} rounds, {sum(chaos.done.values())} deeds")
            next_check = time.monotonic() + 10
