"""The program; its argument is the DaemonSet's name."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from nvshare.kubernetes.account import account_of
from nvshare.kubernetes.api_server import ApiError, ApiServer
from nvshare.kubernetes.names import is_node_name
from nvshare.nodeagent.removal import SECONDS, end
from nvshare.program import complain

NAME = "nvshare-node-agent removal"


def main(arguments: Sequence[str]) -> None:
    """Ends the DaemonSet of this name in the namespace of this pod; exits with 1 where that can't be, 2: no name."""
    # The names of both have the same form. Without one the path would be that of all DaemonSets.
    if len(arguments) != 1 or not is_node_name(arguments[0]):
        complain(NAME, f"{list(arguments)!r} is wrong; allowed: one argument, the DaemonSet's name")
        raise SystemExit(2)
    [name] = arguments
    account = account_of(os.environ)
    if account is None:
        complain(NAME, "it must run in a pod with a service account whose token is mounted: there is none")
        raise SystemExit(1)
    path = f"/apis/apps/v1/namespaces/{account.namespace}/daemonsets/{name}"
    try:
        ended = asyncio.run(end(ApiServer(account, lambda _: None), path))
    except ApiError as error:
        complain(NAME, f"the node agents were not ended: {error}")
        raise SystemExit(1) from error
    if not ended:
        complain(NAME, f"pods of {name} are left after {SECONDS:.0f} s; where a node is down, its condition stays")


if __name__ == "__main__":
    main(sys.argv[1:])
