"""Which of several configurations a node gets: the one that its label names, else the default.

The node agent writes the label's value into a file of the run directory. The configurations are the files of a folder:
a ConfigMap, whose files kubelet replaces all at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from nvshare.deviceplugin.settings.configuration import MOST_BYTES, Configuration
from nvshare.regular_files import read_regular

SETTINGS = "settings"
"""The hidden command that writes what the rest of the command line leads to."""
_ENDINGS = (".yaml", "")
# As labels' values and ConfigMaps' keys are: never a path.
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is chosen at a moment: two that are equal lead to the same settings."""

    name: str
    """The label's value; the default's name where there is none."""
    content: bytes | None
    """Of its file; None: there is none."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Where the configurations are, and what says which one counts."""

    folder: Path
    default: str
    node_config: Path
    """The file with the label's value."""

    def look(self) -> Chosen:
        """What is chosen now."""
        name = _label(self.node_config) or self.default
        file = self.file(name)
        try:
            return Chosen(name, None if file is None else read_regular(file, MOST_BYTES))
        except OSError:
            return Chosen(name, None)

    def file(self, name: str) -> Path | None:
        """The file of the configuration of this name; None: there is none, or it can't be found."""
        if _NAME.fullmatch(name) is None:
            return None
        files = (self.folder / f"{name}{ending}" for ending in _ENDINGS)
        try:
            return next((file for file in files if file.is_file()), None)
        except OSError:
            # Too long a name, or a folder that can't be used: no reason to end a plugin that serves.
            return None

    def names(self) -> str:
        """The configurations that there are, for people."""
        try:
            names = {entry.name.removesuffix(".yaml") for entry in self.folder.iterdir() if entry.is_file()}
        except OSError as error:
            return f"none ({error.strerror})"
        return ", ".join(sorted(names)) or "none"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a plugin, and how they came about."""

    configuration: Configuration
    choice: Choice | None = None
    """What to follow while the plugin runs; None: the settings stay."""
    name: str | None = None
    """Which configuration this is, where there is a choice."""
    problem: str | None = None
    """Why it is the default and not the one that the label names; None: it is the right one."""
    seen: Chosen | None = None
    """What was chosen just before they were read, where there is a choice."""


def _label(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None
