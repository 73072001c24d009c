"""What the operator chose while a scheduler ran, kept in the run directory for the next scheduler.

A choice counts until another one is made: by ``set``, or by an option of the next scheduler that differs from that of
the scheduler which took the choice.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from nvshare import mounts
from nvshare.log import Log
from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.settings import LONGEST_QUANTUM, SHORTEST_QUANTUM, Settings
from nvshare.scheduler.recovery import documents
from nvshare.scheduler.some_terms import SomeTerms

Value = TypeVar("Value")

_ALL = ""
"""In the file: every device for which nothing else was chosen."""


class Choices:
    """Policies and quanta by device; None stands for every device for which nothing else was chosen. Terms."""

    def __init__(self, path: Path, options: Settings, log: Log) -> None:
        """Reads what was chosen before; ``options`` are those of the command line."""
        self._path = path
        self._options = options
        self._log = log
        self.policies: dict[str | None, Policy] = {}
        self.quanta: dict[str | None, float] = {}
        self.policies_before_off: dict[str | None, Policy] = {}
        """Those to go back to when version 1's SCHED_OFF is taken back; empty: it was not given."""
        self.terms: dict[str, SomeTerms] = {}
        """By the containers' names."""
        self.unwritten = ""
        """Why the last choice could not be written; empty: it was."""
        try:
            former_options = documents.read(path, self._read)
        except FileNotFoundError:
            return
        except documents.DocumentError as error:
            log.warning("what was set before is lost: set it again", path=str(path), reason=str(error))
            self.policies, self.quanta, self.policies_before_off, self.terms = {}, {}, {}, {}
            return
        if former_options != self._shown_options():
            # What these options took the place of does not come back with the former ones.
            self.save()

    @property
    def settings(self) -> Settings:
        """The settings to start with."""
        return replace(
            self._options,
            policy=self.policies.get(None, self._options.policy),
            quantum_seconds=self.quanta.get(None, self._options.quantum_seconds),
        )

    @property
    def lost_with_machine(self) -> str:
        """Why nothing of this outlasts a restart of the machine; empty: all does."""
        folder = self._path.parent
        return f"{folder} is in memory" if mounts.is_in_memory(folder) else ""

    def policy_set(self, policy: Policy, device: str | None) -> None:
        """Remembers a choice; ``save`` writes it."""
        _choose(self.policies, policy, device)

    def quantum_set(self, seconds: float, device: str | None) -> None:
        """Remembers a choice; ``save`` writes it."""
        _choose(self.quanta, seconds, device)

    def terms_set(self, container: str, terms: SomeTerms) -> None:
        """Remembers all that was chosen for a container, which may be nothing; ``save`` writes it."""
        if terms.said():
            self.terms[container] = terms
        else:
            self.terms.pop(container, None)

    def save(self) -> None:
        """Writes every choice; one that can't be written is logged, and holds until the scheduler ends."""
        document = {
            "options": self._shown_options(),
            "policies": _named(self.policies),
            "quanta": {device or _ALL: seconds for device, seconds in self.quanta.items()},
            "policies_before_off": _named(self.policies_before_off),
            "terms": {container: terms.said() for container, terms in self.terms.items()},
        }
        try:
            documents.write(self._path, document)
            self.unwritten = ""
        except OSError as error:
            self.unwritten = f"{self._path} can't be written: {error.strerror}"
            self._log.warning(
                "what was set lasts only until this scheduler ends: it can't be written down",
                path=str(self._path),
                reason=error.strerror,
            )

    def restore(self) -> None:
        """Writes every choice if the file was removed."""
        if (self.policies or self.quanta or self.policies_before_off or self.terms) and not self._path.exists():
            self.save()

    def _shown_options(self) -> dict[str, str | float]:
        return {"policy": self._options.policy.value, "quantum_seconds": self._options.quantum_seconds}

    def _read(self, document: Any) -> Any:
        """Takes what counts of a document; the options that it was written with."""
        if document["options"]["policy"] == self._options.policy.value:
            self.policies = _policies(document["policies"])
            self.policies_before_off = _policies(document["policies_before_off"])
        if document["options"]["quantum_seconds"] == self._options.quantum_seconds:
            chosen = {device or None: float(seconds) for device, seconds in document["quanta"].items()}
            for seconds in chosen.values():
                if not SHORTEST_QUANTUM <= seconds <= LONGEST_QUANTUM:
                    raise ValueError(f"quantum {seconds:g} s")
            self.quanta = chosen
        self.terms = {container: documents.some_terms(said) for container, said in document.get("terms", {}).items()}
        if self.policies or self.quanta or self.terms:
            policies = {device or "all": policy.value for device, policy in self.policies.items()}
            quanta = {device or "all": seconds for device, seconds in self.quanta.items()}
            self._log.info(
                "what was set before counts", policies=policies, quanta=quanta, containers=sorted(self.terms)
            )
        return document["options"]


def _choose(chosen: dict[str | None, Value], value: Value, device: str | None) -> None:
    if device is None:
        chosen.clear()
    chosen[device] = value


def _named(policies: dict[str | None, Policy]) -> dict[str, str]:
    return {device or _ALL: policy.value for device, policy in policies.items()}


def _policies(named: Any) -> dict[str | None, Policy]:
    return {device or None: Policy(policy) for device, policy in named.items()}
