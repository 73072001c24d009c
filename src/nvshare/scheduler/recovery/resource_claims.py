"""What ResourceClaims of this node may have, kept in the run directory for the next scheduler.

nvshare's driver of dynamic resource allocation tells it, all claims together. It may come back later than the
scheduler: until then its last word counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nvshare.container_names import claim_account
from nvshare.log import Log
from nvshare.scheduler.recovery import documents
from nvshare.scheduler.some_terms import SomeTerms


@dataclass(frozen=True, slots=True)
class ClaimedDevice:
    """What one request of a claim has of one GPU."""

    request: str
    """``NAME``, or ``NAME/ALTERNATIVE`` where the request lists some."""
    device: str
    """The GPU's UUID, as NVML writes it."""
    memory_bytes: int
    """That it consumed of the GPU's capacity."""
    shares: int
    is_admin: bool
    """It is there to look after the GPU: it has no memory and no shares."""
    terms: SomeTerms
    """Of the whole claim on this GPU. Nothing said: the claim is no account there."""

    def is_of(self, request: str) -> bool:
        """Whether a container that names this request has it; empty: all requests."""
        return not request or self.request == request or self.request.startswith(f"{request}/")


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """A claim that is prepared on this node."""

    uid: str
    namespace: str
    name: str
    devices: tuple[ClaimedDevice, ...]

    @property
    def full_name(self) -> str:
        """Of all claims of the cluster only this one has it, unless it is made anew."""
        return f"{self.namespace}/{self.name}"

    def on(self, device: str, request: str = "") -> tuple[ClaimedDevice, ...]:
        """What it has of a GPU; ``request``: by this one only."""
        return tuple(each for each in self.devices if each.device == device and each.is_of(request))

    @property
    def differs(self) -> bool:
        """Whether it has other terms on one GPU than on another."""
        terms = [each.terms for each in self.devices if each.terms.said()]
        return any(each != terms[0] for each in terms)


class ResourceClaims:
    """The claims as they were told last."""

    def __init__(self, path: Path, log: Log) -> None:
        """Reads what was told before."""
        self._path = path
        self._log = log
        self._claims: dict[str, ResourceClaim] = {}
        """By the full name."""
        self._apart: set[str] = set()
        """Those that are one account on each GPU: they differ, or have differed. Nobody is to go to and fro."""
        self._told: tuple[ResourceClaim, ...] = ()
        self.calls = 0
        """How often they were told since the scheduler started."""
        try:
            self._take(documents.read(path, _read))
        except FileNotFoundError:
            return
        except documents.DocumentError as error:
            log.warning(
                "claims count when the device plugin tells them again: their file can't be used",
                path=str(path),
                reason=str(error),
            )
            return
        if told := len(self._told):
            log.info("claims of before count", claims=told)

    @property
    def told(self) -> tuple[ResourceClaim, ...]:
        """All of them."""
        return self._told

    def find(self, full_name: str) -> ResourceClaim | None:
        """The claim of this name; None: none was told."""
        return self._claims.get(full_name)

    def account(self, claim: ResourceClaim, device: str) -> str:
        """What the core calls those that use a GPU by a claim; empty: the claim is no account there."""
        if not any(each.terms.said() for each in claim.on(device)):
            return ""
        return claim_account(claim.full_name, device if claim.full_name in self._apart else "")

    def replace(self, claims: Iterable[ResourceClaim]) -> bool:
        """Takes these for all that there are, and writes them; whether that changes anything."""
        self.calls += 1
        told = tuple(claims)
        if told == self._told:
            return False
        self._take(told)
        self._save()
        return True

    def restore(self) -> None:
        """Writes them if the file was removed."""
        if self._told and not self._path.exists():
            self._save()

    def _take(self, told: tuple[ResourceClaim, ...]) -> None:
        self._told = told
        self._claims = {claim.full_name: claim for claim in told}
        self._apart = {name for name, claim in self._claims.items() if claim.differs or name in self._apart}

    def _save(self) -> None:
        try:
            documents.write(self._path, [_document(claim) for claim in self._told])
        except OSError as error:
            self._log.warning(
                "what claims may have lasts only until this scheduler ends: it can't be written down",
                path=str(self._path),
                reason=error.strerror,
            )


def _document(claim: ResourceClaim) -> dict[str, Any]:
    devices = [
        {
            "request": each.request,
            "device": each.device,
            "memory_bytes": each.memory_bytes,
            "shares": each.shares,
            "is_admin": each.is_admin,
            "terms": each.terms.said(),
        }
        for each in claim.devices
    ]
    return {"uid": claim.uid, "namespace": claim.namespace, "name": claim.name, "devices": devices}


def _read(document: Any) -> tuple[ResourceClaim, ...]:
    return tuple(
        ResourceClaim(
            str(entry["uid"]),
            str(entry["namespace"]),
            str(entry["name"]),
            tuple(
                ClaimedDevice(
                    str(each["request"]),
                    str(each["device"]),
                    int(each["memory_bytes"]),
                    int(each["shares"]),
                    bool(each["is_admin"]),
                    documents.some_terms(each["terms"]),
                )
                for each in entry["devices"]
            ),
        )
        for entry in document
    )
