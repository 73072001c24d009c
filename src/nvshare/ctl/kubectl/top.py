"""``kubectl nvshare top``: the GPUs of all nodes, live."""

from __future__ import annotations

from typing import Annotated

import typer

from nvshare.ctl.kubectl.options import ContextOption, KubeconfigOption, NamespaceOption, asking
from nvshare.ctl.options.seconds import INTERVALS, interval

HELP = """
Show live, node by node, who holds which GPU, who waits, and what is where in memory.

It runs nvshare-ctl in the scheduler's pod of each node, again and again. \
What sets something is nvshare-ctl top on the node itself.

[bold]Examples:[/bold]

  kubectl nvshare top
  kubectl nvshare top --interval 15

[bold]Exit codes:[/bold] 1 not in a terminal, 3 there is no scheduler.
"""


def top(
    every: Annotated[
        float,
        typer.Option(
            "--interval",
            metavar="SECONDS",
            parser=interval,
            help=f"After how long the nodes are asked again, {INTERVALS}.",
        ),
    ] = 5.0,
    namespace: NamespaceOption = "nvshare-system",
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Until q or Ctrl-C."""
    # Imported where it is used: it takes its time to load, which --help need not wait for.
    from nvshare.ctl.kubectl.live import show

    show(asking(kubeconfig, context, namespace), every)
