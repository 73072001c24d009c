"""Ends a DaemonSet of node agents in order: ``python3 -m nvshare.nodeagent.removal NAME``.

An agent takes off its node what it wrote there when it ends. It needs its rights for that, and an uninstallation takes
both at once. So the chart runs this program before, in a pod whose account may do nothing but delete that DaemonSet in
its own namespace.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from nvshare.kubernetes.api_server import NOT_FOUND, ApiError, ApiServer

SECONDS: Final = 60.0
_LOOK_SECONDS = 0.5


async def end(api: ApiServer, path: str, seconds: float = SECONDS) -> bool:
    """Deletes the DaemonSet at this path and waits until none of its pods is left; False: some are after that time.

    ApiError where that is refused, or the API is away for all of the time.
    """
    problem: ApiError | None = ApiError("the API server does not answer")
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            asked = False
            while True:
                try:
                    if not asked:
                        # It stays until its pods are gone.
                        await api.delete(path, {"propagationPolicy": "Foreground"})
                        asked = True
                    await api.get(path)
                    problem = None
                except ApiError as error:
                    if error.status == NOT_FOUND:
                        return True
                    if not error.is_for_now:
                        raise
                    problem = error
                await asyncio.sleep(_LOOK_SECONDS)
    if problem is not None:
        raise problem
    return False
