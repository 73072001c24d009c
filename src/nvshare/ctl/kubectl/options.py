"""Options that the commands of ``kubectl nvshare`` share: which cluster, and where in it nvshare is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nvshare.ctl.errors import CommandError
from nvshare.ctl.kubectl.answers import Ask
from nvshare.kubernetes.names import NAMESPACE, NODE_NAME, is_namespace, is_node_name
from nvshare.path_option import path_of


def _namespace(text: str) -> str:
    if not is_namespace(text):
        raise typer.BadParameter(f"{text!r} is wrong; allowed: {NAMESPACE}")
    return text


def _node(text: str) -> str:
    if not is_node_name(text):
        raise typer.BadParameter(f"{text!r} is wrong; allowed: {NODE_NAME}")
    return text


def _context(text: str) -> str:
    """What is empty is a variable that was not set."""
    if not text:
        raise typer.BadParameter("'' is wrong; allowed: the name of a context of the kubeconfig")
    return text


NamespaceOption = Annotated[
    str, typer.Option("-n", "--namespace", metavar="NAME", parser=_namespace, help="Where nvshare is installed.")
]
NodeOption = Annotated[
    str | None,
    typer.Option("--node", metavar="NAME", parser=_node, show_default=False, help="This node only. Default: all."),
]
ContextOption = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", parser=_context, help="Of the kubeconfig. Default: its current one."),
]
KubeconfigOption = Annotated[
    Path | None,
    typer.Option("--kubeconfig", metavar="FILE", parser=path_of, help="Default: $KUBECONFIG, else ~/.kube/config."),
]


def asking(kubeconfig: Path | None, context: str | None, namespace: str) -> Ask:
    """The way to ask the nodes of this cluster; CommandError where there is none."""
    # Imported where it is used: the Kubernetes client takes a second to load, which --help need not wait for.
    try:
        from nvshare.ctl.kubectl.nodes import Cluster
    except ModuleNotFoundError as missing:
        raise CommandError(
            f"{missing.name} (a Python package) is not installed; in nvshare's source tree: pip install '.[kubectl]'"
        ) from missing
    return Cluster(kubeconfig, context, namespace).ask_all
