"""What top says of how much of its turns a client used."""

from __future__ import annotations

from nvshare.admin import admin_pb2
from nvshare.ctl.top.use import Use


def status(**states: str) -> admin_pb2.Status:
    """One device with clients of these states, numbered from 1."""
    clients = [admin_pb2.Client(id=number, state=state) for number, state in enumerate(states.values(), 1)]
    return admin_pb2.Status(devices=[admin_pb2.Device(uuid="GPU-1", clients=clients)])


def test_only_who_holds_alone_is_measured() -> None:
    """What two execute at the same time is nobody's, and a device of which NVML says nothing is not known."""
    use = Use()
    use.add(status(a="holding", b="waiting"), {"GPU-1": 0.1})
    use.add(status(a="leaving", b="waiting"), {"GPU-1": 0.3})
    use.add(status(a="holding", b="holding"), {"GPU-1": 1.0})
    use.add(status(a="idle", b="idle"), {"GPU-1": 0.0})
    use.add(status(a="idle", b="holding"), {})
    assert use.shares() == {1: 0.2}


def test_who_is_gone_is_forgotten() -> None:
    """Numbers of clients come again with another scheduler."""
    use = Use()
    use.add(status(a="holding"), {"GPU-1": 0.5})
    use.add(status(), {"GPU-1": 0.5})
    assert use.shares() == {}
