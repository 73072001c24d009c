"""The settings of a node whose label chooses between several configurations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nvshare.deviceplugin.settings.choice import Choice, Settings
from nvshare.deviceplugin.settings.sources import ConfigurationError, load

LABEL = "nvshare.com/device-plugin.config"


def choose(choice: Choice, flags: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """The settings by the configuration that is chosen now, or by the default's where that one can't be used.

    Raises ConfigurationError when the default can't be used either.
    """
    seen = choice.look()
    name = seen.name
    if name == choice.default:
        problem = None
    else:
        try:
            return Settings(load(flags, environment, _existing(choice, name)), choice, name, seen=seen)
        except ConfigurationError as error:
            problem = f"the node's label {LABEL} says {name!r}: {'; '.join(str(error).splitlines())}"
    return Settings(load(flags, environment, _existing(choice, choice.default)), choice, choice.default, problem, seen)


def _existing(choice: Choice, name: str) -> Path:
    file = choice.file(name)
    if file is None:
        raise ConfigurationError(f"{choice.folder} has no configuration {name!r}; here are: {choice.names()}")
    return file
