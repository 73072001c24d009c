"""A context that ends while a submission waits for memory that now cannot come."""

from __future__ import annotations

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.fake_scheduler import FakeScheduler
from tests.shim.memory_peer import CHUNK
from tests.shim.swapping import Start, reach_registered, reach_written
from tests.shim.thread_state import unread


def test_memory_lacks_for_ever(start_swapping: Start, fake_scheduler: FakeScheduler) -> None:
    """Nothing brings in what no context owns: the call answers as the driver does, and the lock is given back."""
    program = start_swapping()
    peer = reach_registered(program, fake_scheduler)
    reach_written(program, peer, "x", CHUNK)
    program.begin(f"create kept {CHUNK}")
    peer.grow()
    assert program.answer() == "0"
    peer.heard(footprint_bytes=2 * CHUNK)
    peer.evict(0)
    peer.heard(resident_bytes=0)
    assert program.do("write_beside x y") == "None"
    peer.grant()
    poll_until(lambda: not unread(peer.peer), "it has heard that")
    assert program.do("release") == "0"
    assert program.do("join x") in ("709", "201")
    peer.peer.revoke()
    while not isinstance(peer.peer.receive(), wire.LockReleased):
        pass
