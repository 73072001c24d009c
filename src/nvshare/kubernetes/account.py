"""The service account of the pod in which a program runs. Knows no HTTP: whether there is one costs nothing to ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nvshare import paths


@dataclass(frozen=True, slots=True)
class Account:
    """Where the API server is, and who asks."""

    host: str
    port: int
    folder: Path
    """The mounted service account: its token, which kubelet renews, the authority's certificate, the namespace."""

    @property
    def namespace(self) -> str:
        """The pod's own; OSError where there is no such account."""
        return (self.folder / "namespace").read_text().strip()


def account_of(environment: Mapping[str, str]) -> Account | None:
    """That of the pod in which this runs; None: there is none, or its token is not mounted."""
    host = environment.get(paths.KUBERNETES_SERVICE_HOST, "")
    port = environment.get(paths.KUBERNETES_SERVICE_PORT, "")
    if not host or not port.isdecimal() or not paths.SERVICE_ACCOUNT_DIR.is_dir():
        return None
    return Account(host, int(port), paths.SERVICE_ACCOUNT_DIR)
