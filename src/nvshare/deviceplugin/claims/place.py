"""Where the claims of a node are, and how their containers get GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nvshare.deviceplugin.answers.allocation import Injection
from nvshare.deviceplugin.claims.records import RecordFiles
from nvshare.dra import DRIVER


@dataclass(frozen=True, slots=True)
class Place:
    """Where the claims are, and how their containers get GPUs."""

    node: str
    kubelet_root: Path
    """kubelet's folder, with ``plugins`` and ``plugins_registry`` in it."""
    cdi_dir: Path
    admin_socket: Path
    injection: Injection

    @property
    def folders(self) -> tuple[Path, Path]:
        """The driver's own in kubelet's folder, and that in which kubelet finds its drivers: mounts of the node's."""
        return self.kubelet_root / "plugins" / DRIVER, self.kubelet_root / "plugins_registry"

    @property
    def records(self) -> Path:
        """The folder with a record of each claim that is prepared."""
        return self.folders[0] / "claims"

    def has_records(self) -> bool:
        """Whether any claim is prepared, or may be: the folder can't be read. May wait for the disk."""
        try:
            return any(RecordFiles(self.records).uids())
        except OSError:
            return True
