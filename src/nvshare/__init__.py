"""nvshare: several programs share a GPU, in turns or together, without changing them.

For a program or a notebook that wants to say itself what it may have::

    import nvshare

    nvshare.limit(memory="4G", priority="low", name="notebook")  # before the first CUDA call

There is no context manager that keeps the turn. The library gives a turn back as soon as the GPU idles and others
wait, and the scheduler ends it after the quantum; a program that could prevent that could keep the GPU from all others,
and so neither has a request for it. A longer quantum (``nvshare-ctl set quantum``) and a priority are what there is.
"""

from __future__ import annotations

from typing import Any

from nvshare.api_errors import NotLoadedError, SchedulerError, TooLateError

__all__ = ["NotLoadedError", "SchedulerError", "TooLateError", "limit", "status"]


def limit(
    *,
    memory: str | int | None = None,
    weight: float | None = None,
    priority: str | None = None,
    name: str | None = None,
) -> None:
    """Says what this process may have of its GPUs, and how much it matters; what is None stays as it is.

    ``memory``: the most that it may allocate on each GPU, in bytes or as ``"4G"``. ``weight``: its share of a GPU's
    time, 0.01 to 1000. ``priority``: ``"low"``, ``"normal"`` or ``"high"``. ``name``: all processes of this user with
    that name count as one, and have these together.

    Before the process uses a GPU it goes into the environment, so what the process starts has it too.
    Later the scheduler is told, for all processes that count as one with this one, as ``nvshare-ctl set`` does: that
    stays set until it is taken back there.

    Raises ValueError for a value that means nothing, NotLoadedError where the process was not started with nvshare,
    and TooLateError where it has used a GPU and the scheduler takes no such command from it. The name can't be
    changed then.
    """
    from nvshare.ctl import own_process

    own_process.limit(memory=memory, weight=weight, priority=priority, name=name)


def status() -> dict[str, Any]:
    """What ``nvshare-ctl status -o json`` prints, as a dict; its schema is in ``docs/schemas/status.json``.

    Raises SchedulerError where no scheduler answers. The process need not have been started with nvshare.
    """
    from nvshare.ctl import own_process

    return own_process.status()
